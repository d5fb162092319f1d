#include "io/fetch/page_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/fetch/page.h"
#include "threads/process.h"

namespace atompack::io::fetch {

// Pages in memory by file and number, in the order of their use.
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
  std::list<Page*> by_use_;  // pages that were fetched or failed, oldest first
  std::list<Page*> on_their_way_;
};

namespace {

// Pages between two wanted ones are fetched too where a request of their own would cost more than their bytes.
constexpr uint64_t kMaxGapPages = 4;
// Longer runs are divided, since several connections are faster than one.
constexpr uint64_t kMaxRunPages = 256;
// Runs of a long read that are announced before its beginning is waited for.
constexpr uint64_t kMaxRunsAhead = 8;
constexpr std::chrono::milliseconds kInterruptionCheck{100};

// Each thread gets a copy of its own: those who catch an exception may add to it, and ThreadSanitizer does not see how
// the C++ library counts the owners of a shared one.
[[noreturn]] void throw_copy_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const IoError& error) {
    throw IoError(error.code(), error.reason(), error.path());
  }
}

std::exception_ptr copy_of(const std::exception_ptr& failure) noexcept {
  try {
    throw_copy_of(failure);
  } catch (...) {
    return std::current_exception();
  }
}

template <typename T>
void make_room_for_one(std::vector<T>& values) {
  if (values.size() == values.capacity()) values.reserve(2 * values.size() + 16);
}

// The mutex is held for microseconds: waiting in the kernel would cost more than that.
std::unique_lock<std::mutex> lock_soon(std::mutex& mutex) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    if (std::unique_lock lock(mutex, std::try_to_lock); lock) return lock;
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
  return std::unique_lock(mutex);
}

}  // namespace

struct PageCache::Shared {
  // Pages on their way; nobody else changes them.
  using Claimed = std::vector<Page*>;
  // Successive pages of one request.
  struct Run {
    Claimed pages;
    uint64_t first() const { return pages.front()->key.page; }
    uint64_t end() const { return first() + pages.size(); }
  };

  explicit Shared(uint64_t max_bytes) : pages(max_bytes), max_pages(pages.max_pages()) {}

  // Pages in use by a reader, which are not evicted in the meantime.
  class HeldPages {
   public:
    HeldPages(Shared& shared, const ByteRange& range)
        : first(range.offset / kPageBytes), last((range.end() - 1) / kPageBytes), shared_(shared) {
      pages_.reserve(last - first + 1);
    }
    HeldPages(const HeldPages&) = delete;
    HeldPages& operator=(const HeldPages&) = delete;
    ~HeldPages() {
      const std::lock_guard lock(shared_.mutex);
      for (Page* const page : pages_) --page->n_readers;
      shared_.pages.evict();
    }

    // The mutex is held, and all of the pages are present.
    void hold(const PagedFile& file) noexcept {
      for (uint64_t number = first; number <= last; ++number) {
        pages_.push_back(shared_.pages.find({file.number, number}));
        ++pages_.back()->n_readers;
      }
    }
    Page& operator[](uint64_t number) const { return *pages_[number - first]; }

    const uint64_t first, last;

   private:
    Shared& shared_;
    std::vector<Page*> pages_;
  };

  std::mutex mutex;  // guards the members below
  std::condition_variable arrived;
  PageTable pages;
  PageCacheStats counts;
  const uint64_t max_pages;
  std::atomic<uint64_t> n_copied{0};  // pages, straight from the block cache; not guarded

  // Marks pages that are absent or failed as on their way, until `max_on_their_way` are, and adds them to `claimed`.
  // Pages that are here become those used last.
  void claim(const PagedFile& file, std::span<const ByteRange> ranges, uint64_t max_on_their_way, Claimed& claimed) {
    for (const ByteRange& range : ranges) {
      if (range.length == 0 || range.offset >= file.length) continue;
      const uint64_t last = (range.offset + std::min(range.length, file.length - range.offset) - 1) / kPageBytes;
      for (uint64_t number = range.offset / kPageBytes; number <= last; ++number) {
        if (pages.n_on_their_way() >= max_on_their_way) return;
        make_room_for_one(claimed);  // so that no page is marked and then lost
        const auto [page, is_new] = pages.find_or_insert({file.number, number});
        if (!is_new && page->stage == Stage::here) pages.touch(*page);
        if (!is_new && page->stage != Stage::failed) continue;
        claimed.push_back(page);
        if (!is_new) pages.restart(*page);
      }
    }
  }

  void fetch(const std::shared_ptr<Shared>& self, const PagedFile& file, std::span<const ByteRange> ranges,
             uint64_t max_on_their_way, HeldPages* held) {
    Claimed claimed;
    std::vector<Run> runs;
    try {
      {
        const std::unique_lock lock = lock_soon(mutex);
        claim(file, ranges, max_on_their_way, claimed);
        if (held != nullptr) held->hold(file);
        pages.evict();
      }
      if (claimed.empty()) return;
      std::ranges::sort(claimed, {}, [](const Page* page) { return page->key.page; });
      if (file.disk) take_from_disk(file, claimed);
      if (claimed.empty()) return;
      const std::unique_lock lock = lock_soon(mutex);
      runs = runs_of(file, claimed);
      counts.requests += runs.size();
      for (const Run& run : runs) {
        counts.fetched_bytes += std::min(run.end() * kPageBytes, file.length) - run.first() * kPageBytes;
      }
    } catch (...) {  // nobody may wait for these pages forever
      finish(claimed, Stage::failed, copy_of(std::current_exception()));
      throw;
    }
    for (Run& run : runs) request(self, file, std::move(run));
  }

  // `failure` belongs to these pages alone: from here on it is only touched while the mutex is held.
  void finish(const Claimed& claimed, Stage stage, std::exception_ptr failure) noexcept {
    bool is_waited_for = false;
    {
      const std::unique_lock lock = lock_soon(mutex);
      for (Page* const page : claimed) {
        pages.finish(*page, stage, failure);
        is_waited_for = is_waited_for || page->n_readers > 0;
      }
      failure = nullptr;
      pages.evict();
    }
    if (is_waited_for) arrived.notify_all();
  }

  // Reads pages from the block cache, and leaves those that it does not have.
  void take_from_disk(const PagedFile& file, Claimed& claimed) {
    std::vector<uint64_t> numbers(claimed.size());
    std::vector<std::byte*> memory(claimed.size());
    std::ranges::transform(claimed, numbers.begin(), [](const Page* page) { return page->key.page; });
    std::ranges::transform(claimed, memory.begin(), [](const Page* page) { return page->bytes; });
    const std::vector<bool> is_read = file.disk->read(numbers, memory);
    Claimed found, others;
    for (size_t i = 0; i < claimed.size(); ++i) {
      claimed[i]->is_on_disk = is_read[i];
      (is_read[i] ? found : others).push_back(claimed[i]);
    }
    if (found.empty()) return;
    claimed.swap(others);
    finish(found, Stage::here, nullptr);
    const std::lock_guard lock(mutex);
    counts.pages_from_disk += found.size();
  }

  // Joins claimed pages, and absent pages in small gaps between them, to runs. The latter are added to `claimed`.
  std::vector<Run> runs_of(const PagedFile& file, Claimed& claimed) {
    std::vector<Run> runs;
    const auto joins_last = [&](uint64_t number) {
      if (runs.empty() || number - runs.back().end() > kMaxGapPages) return false;
      if (number - runs.back().first() >= kMaxRunPages) return false;
      for (uint64_t gap = runs.back().end(); gap < number; ++gap) {
        if (pages.find({file.number, gap}) != nullptr) return false;
      }
      return true;
    };
    const Claimed wanted = claimed;
    for (Page* const page : wanted) {
      if (joins_last(page->key.page)) {
        while (runs.back().end() < page->key.page) {
          make_room_for_one(claimed);
          claimed.push_back(pages.find_or_insert({file.number, runs.back().end()}).first);
          runs.back().pages.push_back(claimed.back());
        }
        runs.back().pages.push_back(page);
      } else {
        runs.push_back({{page}});
      }
    }
    return runs;
  }

  void request(const std::shared_ptr<Shared>& self, const PagedFile& file, Run run) {
    RangeRequest request{run.first() * kPageBytes, {}};
    for (const Page* const page : run.pages) {
      request.into.emplace_back(page->bytes, bytes_of_page(file.length, page->key.page));
    }
    const auto claimed = std::make_shared<const Claimed>(std::move(run.pages));
    try {
      file.reader->read(std::move(request), [self, claimed](const std::exception_ptr& failure) {
        self->finish(*claimed, failure ? Stage::failed : Stage::here, failure ? copy_of(failure) : nullptr);
      });
    } catch (...) {  // not even started
      finish(*claimed, Stage::failed, copy_of(std::current_exception()));
    }
  }

  void announce(const std::shared_ptr<Shared>& self, const PagedFile& file, std::span<const ByteRange> ranges) {
    fetch(self, file, ranges, std::max<uint64_t>(1, max_pages / 2), nullptr);
  }

  void read(const std::shared_ptr<Shared>& self, const PagedFile& file, const ByteRange& range, std::byte* into) {
    {
      const std::unique_lock lock = lock_soon(mutex);
      if (copy_if_here(file, range, into)) return;
    }
    HeldPages held(*this, range);
    fetch(self, file, {&range, 1}, UINT64_MAX, &held);
    std::vector<uint64_t> to_store;
    auto next_check = std::chrono::steady_clock::now() + kInterruptionCheck;
    {
      std::unique_lock lock(mutex);
      for (uint64_t number = held.first; number <= held.last; ++number) {
        Page& page = held[number];
        while (page.stage == Stage::on_its_way) {
          arrived.wait_until(lock, next_check);
          if (std::chrono::steady_clock::now() < next_check) continue;
          lock.unlock();
          threads::check_for_interruption();
          next_check = std::chrono::steady_clock::now() + kInterruptionCheck;
          lock.lock();
        }
        if (page.stage == Stage::failed) throw_copy_of(page.failure);
        copy(page, number, range, into);
        if (!file.disk || page.is_on_disk) continue;
        to_store.push_back(number);
        page.is_on_disk = true;
      }
    }
    for (const uint64_t number : to_store) {  // held, so they stay
      file.disk->write(number, Bytes(held[number].bytes, bytes_of_page(file.length, number)));
    }
  }

  // Copies all of the range if nothing else has to be done for it. The mutex is held.
  bool copy_if_here(const PagedFile& file, const ByteRange& range, std::byte* into) {
    for (uint64_t number = range.offset / kPageBytes; number * kPageBytes < range.end(); ++number) {
      const Page* const page = pages.find({file.number, number});
      if (page == nullptr || page->stage != Stage::here || (file.disk && !page->is_on_disk)) return false;
      copy(*page, number, range, into);
    }
    return true;
  }

  void copy(const Page& page, uint64_t number, const ByteRange& range, std::byte* into) {
    const uint64_t begin = std::max(range.offset, number * kPageBytes);
    const uint64_t end = std::min(range.end(), (number + 1) * kPageBytes);
    store(into + (begin - range.offset), Bytes(page.bytes + begin % kPageBytes, end - begin));
    pages.touch(page);
  }
};

PageCache::PageCache(uint64_t max_bytes)
    : max_pages_(std::max<uint64_t>(1, max_bytes / kPageBytes)),
      shared_([max_bytes] { return std::make_unique<std::shared_ptr<Shared>>(std::make_shared<Shared>(max_bytes)); }) {}

PageCache::~PageCache() = default;

PagedFile PageCache::add(uint64_t length, std::shared_ptr<const RangeReader> reader,
                         std::shared_ptr<const CachedObject> disk) {
  return {++n_files_, length, std::move(reader), std::move(disk)};
}

void PageCache::put(const PagedFile& file, uint64_t offset, Bytes bytes) {
  std::vector<uint64_t> whole;
  for (uint64_t page = count_pages(offset); page < count_pages(file.length); ++page) {
    if (page * kPageBytes + bytes_of_page(file.length, page) > offset + bytes.size()) break;
    whole.push_back(page);
  }
  const std::vector<bool> is_stored = file.disk ? file.disk->find(whole) : std::vector<bool>(whole.size());
  Shared& shared = *shared_.get();
  const std::lock_guard lock(shared.mutex);
  for (size_t i = 0; i < whole.size(); ++i) {
    const PageKey key{file.number, whole[i]};
    const auto [found, is_new] = shared.pages.find_or_insert(key);
    if (!is_new) continue;
    Page& page = *found;
    store(page.bytes, bytes.subspan(whole[i] * kPageBytes - offset, bytes_of_page(file.length, whole[i])));
    page.is_on_disk = is_stored[i];
    shared.pages.finish(page, Stage::here, nullptr);
  }
  shared.pages.evict();
}

void PageCache::announce(const PagedFile& file, std::span<const ByteRange> ranges) {
  const std::shared_ptr<Shared>& shared = shared_.get();
  if (!file.disk) return shared->announce(shared, file, ranges);
  if (const std::vector<ByteRange> others = file.disk->announce(ranges); !others.empty()) {
    shared->announce(shared, file, others);
  }
}

bool PageCache::has(const PagedFile& file, const ByteRange& range) const {
  Shared& shared = *shared_.get();
  const std::lock_guard lock(shared.mutex);
  for (uint64_t number = range.offset / kPageBytes; number * kPageBytes < range.end(); ++number) {
    const Page* const page = shared.pages.find({file.number, number});
    if (page == nullptr || page->stage == Stage::failed) return false;
  }
  return true;
}

void PageCache::read(const PagedFile& file, uint64_t offset, std::span<std::byte> into) {
  if (offset > file.length || into.size() > file.length - offset) {
    throw InternalError(
        cat("page cache: expected a range inside of ", file.length, " bytes, got ", into.size(), " bytes at ", offset));
  }
  const std::shared_ptr<Shared>& shared = shared_.get();
  if (file.disk && file.disk->copy(offset, into)) {
    const uint64_t n_pages = count_pages(offset + into.size()) - offset / kPageBytes;
    shared->n_copied.fetch_add(n_pages, std::memory_order_relaxed);
    return;
  }
  // In parts, so that a long read does not take more memory than there is.
  const uint64_t part_bytes = std::clamp<uint64_t>(shared->max_pages / 4, 1, kMaxRunPages) * kPageBytes;
  const uint64_t ahead_bytes = std::min(shared->max_pages / 2 * kPageBytes, kMaxRunsAhead * part_bytes);
  const uint64_t end = offset + into.size();
  for (uint64_t begin = offset; begin < end;) {
    const uint64_t next = std::min(end, (begin / part_bytes + 1) * part_bytes);
    if (next < end) shared->announce(shared, file, std::array{ByteRange{begin, std::min(end - begin, ahead_bytes)}});
    shared->read(shared, file, {begin, next - begin}, into.data() + (begin - offset));
    begin = next;
  }
}

int64_t PageCache::window(const PagedFile& file) const {
  constexpr uint64_t kPagesEach = 2;
  const uint64_t room = max_pages_ / 2 / kPagesEach;
  return static_cast<int64_t>(std::max<uint64_t>(2, std::min<uint64_t>(3 * file.reader->max_in_flight(), room)));
}

PageCacheStats PageCache::stats() const {
  Shared& shared = *shared_.get();
  const std::lock_guard lock(shared.mutex);
  PageCacheStats stats = shared.counts;
  stats.pages_from_disk += shared.n_copied.load(std::memory_order_relaxed);
  stats.held_bytes = shared.pages.size() * kPageBytes;
  return stats;
}

}  // namespace atompack::io::fetch
