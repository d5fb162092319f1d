// Pages in memory by file and number, in the order of their use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <list>
#include <unordered_map>
#include <utility>

#include "io/fetch/page_memory.h"

namespace atompack::io::fetch {

struct PageKey {
  uint64_t file = 0, page = 0;
  bool operator==(const PageKey&) const = default;
};

struct PageKeyHash {
  size_t operator()(const PageKey& key) const {
    return static_cast<size_t>((key.file * 0x9E3779B97F4A7C15U ^ key.page) * 0xD6E8FEB86659FD93U);
  }
};

enum class Stage : uint8_t { on_its_way, here, failed };

struct Page {
  PageKey key = {};
  std::byte* bytes = nullptr;
  Stage stage = Stage::on_its_way;
  bool is_on_disk = false;
  uint32_t n_readers = 0;  // which wait for it or copy from it
  std::exception_ptr failure = {};
  std::list<Page*>::iterator place = {};  // in one of the table's lists
};

// Pages stay where they are until they are evicted. Not thread-safe.
class PageTable {
 public:
  explicit PageTable(uint64_t max_bytes) : max_pages_(std::max<uint64_t>(1, max_bytes / kPageBytes)) {}

  uint64_t max_pages() const { return max_pages_; }
  uint64_t size() const { return pages_.size(); }
  uint64_t n_on_their_way() const { return on_their_way_.size(); }

  // Returns nullptr if there is no such page.
  Page* find(const PageKey& key) {
    const auto found = pages_.find(key);
    return found == pages_.end() ? nullptr : &found->second;
  }

  // Returns the page, and true if it is new and therefore on its way.
  std::pair<Page*, bool> find_or_insert(const PageKey& key) {
    const auto [found, is_new] = pages_.try_emplace(key);
    Page& page = found->second;
    if (!is_new) return {&page, false};
    try {
      std::list<Page*> place{&page};
      page.bytes = memory_.take();
      page.key = key;
      page.place = place.begin();
      on_their_way_.splice(on_their_way_.end(), place);
    } catch (...) {
      pages_.erase(found);
      throw;
    }
    return {&page, true};
  }

  // Here or failed.
  void finish(Page& page, Stage stage, const std::exception_ptr& failure) noexcept {
    page.stage = stage;
    page.failure = failure;
    by_use_.splice(by_use_.end(), on_their_way_, page.place);
  }

  void restart(Page& page) noexcept {
    page.stage = Stage::on_its_way;
    page.failure = nullptr;
    on_their_way_.splice(on_their_way_.end(), by_use_, page.place);
  }

  // Makes a page that is here or failed the one used last.
  void touch(const Page& page) noexcept { by_use_.splice(by_use_.end(), by_use_, page.place); }

  // Removes the oldest pages beyond the limit, except for those on their way or with readers.
  void evict() noexcept {
    for (auto oldest = by_use_.begin(); oldest != by_use_.end() && pages_.size() > max_pages_;) {
      const Page& page = **oldest;
      if (page.n_readers > 0) {
        ++oldest;
        continue;
      }
      memory_.give_back(page.bytes);
      oldest = by_use_.erase(oldest);
      pages_.erase(PageKey(page.key));
    }
  }

 private:
  uint64_t max_pages_;
  PageMemory memory_;
  std::unordered_map<PageKey, Page, PageKeyHash> pages_;
  std::list<Page*> by_use_;  // pages that are here or failed, oldest first
  std::list<Page*> on_their_way_;
};

}  // namespace atompack::io::fetch
