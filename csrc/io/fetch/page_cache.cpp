#include "io/fetch/page_cache.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "io/fetch/page.h"
#include "threads/interruption.h"

namespace atompack::io::fetch {
namespace {

// Pages between two wanted ones are fetched too where a request of their own would cost more than their bytes.
constexpr uint64_t kMaxGapPages = 4;
// Longer runs are divided, since several connections are faster than one.
constexpr uint64_t kMaxRunPages = 256;

}  // namespace

struct PageCache::Shared {
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
    std::unique_ptr<std::byte[]> bytes = {};
    Stage stage = Stage::on_its_way;
    bool is_on_disk = false;
    uint32_t n_readers = 0;  // which wait for it or copy from it
    std::exception_ptr failure = {};
    std::list<PageKey>::iterator used = {};  // of pages that are here or failed
  };

  // Successive pages of one request.
  struct Run {
    uint64_t first = 0;
    std::vector<std::span<std::byte>> memory = {};
    uint64_t end() const { return first + memory.size(); }
  };

  explicit Shared(uint64_t n) : max_bytes(n) {}

  class HeldPages;
  using Pages = std::unordered_map<PageKey, Page, PageKeyHash>;

  const uint64_t max_bytes;
  std::mutex mutex;  // guards all members below
  std::condition_variable arrived;
  Pages pages;
  std::list<PageKey> by_use;  // oldest first
  uint64_t n_on_their_way = 0;
  uint64_t n_files = 0;
  PageCacheStats counts;

  uint64_t max_pages() const { return std::max<uint64_t>(1, max_bytes / kPageBytes); }

  // The page of a new key, on its way.
  Page& insert(const PageKey& key) {
    Page& page = pages[key];
    page.bytes = std::make_unique_for_overwrite<std::byte[]>(kPageBytes);
    ++n_on_their_way;
    return page;
  }

  // Returns true if a reader waits for the page.
  bool finish(const PageKey& key, Stage stage, const std::exception_ptr& failure) {
    Page& page = pages.at(key);
    page.stage = stage;
    page.failure = failure;
    page.used = by_use.insert(by_use.end(), key);
    --n_on_their_way;
    return page.n_readers > 0;
  }

  void restart(Page& page) {
    by_use.erase(page.used);
    page.stage = Stage::on_its_way;
    page.failure = nullptr;
    ++n_on_their_way;
  }

  void evict() {
    for (auto oldest = by_use.begin(); oldest != by_use.end() && pages.size() > max_pages();) {
      const auto found = pages.find(*oldest);
      if (found->second.n_readers > 0) {
        ++oldest;
        continue;
      }
      pages.erase(found);
      oldest = by_use.erase(oldest);
    }
  }

  std::vector<uint64_t> claim(const PagedFile& file, std::span<const ByteRange> ranges, uint64_t max_count);
  void fetch(const std::shared_ptr<Shared>& self, const PagedFile& file, std::vector<uint64_t> wanted);
  void fail(const PagedFile& file, std::span<const uint64_t> claimed, const std::exception_ptr& failure);
  std::vector<uint64_t> take_from_disk(const PagedFile& file, const std::vector<uint64_t>& wanted);
  std::vector<Run> runs_of(const PagedFile& file, std::span<const uint64_t> wanted);
  void request(const std::shared_ptr<Shared>& self, const PagedFile& file, Run run);
};

PageCache::PageCache(uint64_t max_bytes) : shared_(std::make_shared<Shared>(max_bytes)) {}

PageCache::~PageCache() = default;

PagedFile PageCache::add(uint64_t length, std::shared_ptr<const RangeReader> reader,
                         std::shared_ptr<const CachedObject> disk) {
  const std::lock_guard lock(shared_->mutex);
  return {++shared_->n_files, length, std::move(reader), std::move(disk)};
}

void PageCache::put(const PagedFile& file, uint64_t offset, Bytes bytes) {
  const std::lock_guard lock(shared_->mutex);
  for (uint64_t page = (offset + kPageBytes - 1) / kPageBytes; page < count_pages(file.length); ++page) {
    const uint64_t from = page * kPageBytes - offset, n = bytes_of_page(file.length, page);
    if (from + n > bytes.size()) break;
    const Shared::PageKey key{file.number, page};
    if (shared_->pages.contains(key)) continue;
    store(shared_->insert(key).bytes.get(), bytes.subspan(from, n));
    shared_->finish(key, Shared::Stage::here, nullptr);
  }
  shared_->evict();
}

// Marks pages that are absent, or failed and are not being read, as on their way. Returns their numbers, each once.
std::vector<uint64_t> PageCache::Shared::claim(const PagedFile& file, std::span<const ByteRange> ranges,
                                               uint64_t max_count) {
  std::vector<uint64_t> claimed;
  for (const ByteRange& range : ranges) {
    if (range.length == 0 || range.offset >= file.length) continue;
    const uint64_t last = (range.offset + std::min(range.length, file.length - range.offset) - 1) / kPageBytes;
    for (uint64_t page = range.offset / kPageBytes; page <= last; ++page) {
      if (claimed.size() >= max_count) return claimed;
      const PageKey key{file.number, page};
      const auto found = pages.find(key);
      if (found == pages.end()) {
        insert(key);
      } else if (found->second.stage == Stage::failed) {
        restart(found->second);
      } else {
        continue;
      }
      claimed.push_back(page);
    }
  }
  return claimed;
}

void PageCache::announce(const PagedFile& file, std::span<const ByteRange> ranges) {
  std::vector<uint64_t> wanted;
  {
    const std::lock_guard lock(shared_->mutex);
    const uint64_t limit = std::max<uint64_t>(1, shared_->max_pages() / 2);
    if (shared_->n_on_their_way >= limit) return;
    wanted = shared_->claim(file, ranges, limit - shared_->n_on_their_way);
    shared_->evict();
  }
  shared_->fetch(shared_, file, std::move(wanted));
}

// `wanted` was claimed, so that nobody else changes these pages.
void PageCache::Shared::fetch(const std::shared_ptr<Shared>& self, const PagedFile& file,
                              std::vector<uint64_t> wanted) {
  if (wanted.empty()) return;
  std::ranges::sort(wanted);
  std::vector<Run> runs;
  try {
    if (file.disk) wanted = take_from_disk(file, wanted);
    const std::lock_guard lock(mutex);
    runs = runs_of(file, wanted);
    counts.requests += runs.size();
    for (const Run& run : runs) counts.fetched_bytes += run.memory.size() * kPageBytes;
  } catch (...) {  // nobody may wait for these pages for ever
    fail(file, wanted, std::current_exception());
    throw;
  }
  for (Run& run : runs) request(self, file, std::move(run));
}

void PageCache::Shared::fail(const PagedFile& file, std::span<const uint64_t> claimed,
                             const std::exception_ptr& failure) {
  {
    const std::lock_guard lock(mutex);
    for (const uint64_t page : claimed) {
      const PageKey key{file.number, page};
      if (pages.at(key).stage == Stage::on_its_way) finish(key, Stage::failed, failure);
    }
  }
  arrived.notify_all();
}

// Reads pages from the block cache. Returns those that it does not have.
std::vector<uint64_t> PageCache::Shared::take_from_disk(const PagedFile& file, const std::vector<uint64_t>& wanted) {
  const std::vector<bool> is_stored = file.disk->find(wanted);
  std::vector<uint64_t> stored, others;
  for (size_t i = 0; i < wanted.size(); ++i) (is_stored[i] ? stored : others).push_back(wanted[i]);
  if (stored.empty()) return others;
  file.disk->will_need(stored);
  std::vector<std::byte*> memory;
  {
    const std::lock_guard lock(mutex);
    for (const uint64_t page : stored) memory.push_back(pages.at({file.number, page}).bytes.get());
  }
  std::vector<bool> is_read;
  for (size_t i = 0; i < stored.size(); ++i) {
    is_read.push_back(file.disk->read(stored[i], {memory[i], bytes_of_page(file.length, stored[i])}));
    if (!is_read.back()) others.push_back(stored[i]);
  }
  {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < stored.size(); ++i) {
      if (!is_read[i]) continue;
      const PageKey key{file.number, stored[i]};
      pages.at(key).is_on_disk = true;
      finish(key, Stage::here, nullptr);
      ++counts.pages_from_disk;
    }
  }
  arrived.notify_all();
  std::ranges::sort(others);
  return others;
}

// Joins wanted pages, and absent pages in small gaps between them, to runs.
std::vector<PageCache::Shared::Run> PageCache::Shared::runs_of(const PagedFile& file,
                                                               std::span<const uint64_t> wanted) {
  std::vector<Run> runs;
  const auto add = [&](uint64_t number) {
    std::byte* const bytes = pages.at({file.number, number}).bytes.get();
    runs.back().memory.emplace_back(bytes, bytes_of_page(file.length, number));
  };
  for (const uint64_t number : wanted) {
    if (!runs.empty()) {
      const uint64_t end = runs.back().end();
      bool joins = number - end <= kMaxGapPages && runs.back().memory.size() < kMaxRunPages;
      for (uint64_t gap = end; joins && gap < number; ++gap) joins = !pages.contains({file.number, gap});
      if (joins) {
        for (uint64_t gap = end; gap < number; ++gap) {
          insert({file.number, gap});
          add(gap);
        }
        add(number);
        continue;
      }
    }
    runs.push_back({number});
    add(number);
  }
  return runs;
}

void PageCache::Shared::request(const std::shared_ptr<Shared>& self, const PagedFile& file, Run run) {
  const uint64_t first = run.first, end = run.end(), number = file.number;
  const auto done = [self, first, end, number](const std::exception_ptr& failure) {
    bool is_awaited = false;  // waking readers for every page would cost more than reading it
    {
      const std::lock_guard lock(self->mutex);
      const Stage stage = failure ? Stage::failed : Stage::here;
      for (uint64_t page = first; page < end; ++page) {
        is_awaited |= self->finish({number, page}, stage, failure);
      }
      self->evict();
    }
    if (is_awaited) self->arrived.notify_all();
  };
  try {
    file.reader->read({first * kPageBytes, std::move(run.memory)}, done);
  } catch (...) {  // not even started
    done(std::current_exception());
  }
}

// Pages in use by a reader, which are not evicted meanwhile.
class PageCache::Shared::HeldPages {
 public:
  explicit HeldPages(Shared& shared) : shared_(shared) {}
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;
  ~HeldPages() {
    const std::lock_guard lock(shared_.mutex);
    for (const PageKey& key : keys_) --shared_.pages.at(key).n_readers;
  }
  // The mutex is held.
  void add(const PageKey& key) {
    ++shared_.pages.at(key).n_readers;
    keys_.push_back(key);
  }

 private:
  Shared& shared_;
  std::vector<PageKey> keys_;
};

void PageCache::read(const PagedFile& file, uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) return;
  Shared& shared = *shared_;
  const ByteRange range{offset, into.size()};
  const uint64_t first = offset / kPageBytes, last = (range.end() - 1) / kPageBytes;
  Shared::HeldPages held(shared);
  std::vector<uint64_t> wanted;
  {
    const std::lock_guard lock(shared.mutex);
    wanted = shared.claim(file, {&range, 1}, UINT64_MAX);
    for (uint64_t page = first; page <= last; ++page) held.add({file.number, page});
    shared.evict();
  }
  shared.fetch(shared_, file, wanted);
  std::vector<std::pair<uint64_t, const std::byte*>> to_store;
  {
    std::unique_lock lock(shared.mutex);
    for (uint64_t number = first; number <= last; ++number) {
      Shared::Page& page = shared.pages.at({file.number, number});
      while (page.stage == Shared::Stage::on_its_way) {
        if (shared.arrived.wait_for(lock, std::chrono::milliseconds(100)) == std::cv_status::no_timeout) continue;
        lock.unlock();
        check_for_interruption();
        lock.lock();
      }
      if (page.stage == Shared::Stage::failed) std::rethrow_exception(page.failure);
      const uint64_t begin = std::max(offset, number * kPageBytes);
      const uint64_t end = std::min(range.end(), (number + 1) * kPageBytes);
      store(into.data() + (begin - offset), Bytes(page.bytes.get() + begin % kPageBytes, end - begin));
      shared.by_use.splice(shared.by_use.end(), shared.by_use, page.used);
      if (file.disk && !page.is_on_disk) {
        page.is_on_disk = true;
        to_store.emplace_back(number, page.bytes.get());
      }
    }
  }
  for (const auto& [number, bytes] : to_store) {  // held, so they stay
    file.disk->write(number, Bytes(bytes, bytes_of_page(file.length, number)));
  }
}

PageCacheStats PageCache::stats() const {
  const std::lock_guard lock(shared_->mutex);
  PageCacheStats stats = shared_->counts;
  stats.held_bytes = shared_->pages.size() * kPageBytes;
  return stats;
}

uint64_t PageCache::max_bytes() const { return shared_->max_bytes; }

}  // namespace atompack::io::fetch
