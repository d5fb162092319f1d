#include "io/fetch/page_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "io/fetch/page.h"
#include "io/fetch/page_table.h"
#include "threads/interruption.h"

namespace atompack::io::fetch {
namespace {

// Pages between two wanted ones are fetched too where a request of their own would cost more than their bytes.
constexpr uint64_t kMaxGapPages = 4;
// Longer runs are divided, since several connections are faster than one.
constexpr uint64_t kMaxRunPages = 256;
// Runs of a long read that are announced before its beginning is waited for.
constexpr uint64_t kMaxRunsAhead = 8;
constexpr std::chrono::milliseconds kInterruptionCheck{100};

// Each thread gets a copy of its own: those who catch an exception may add to it.
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

}  // namespace

struct PageCache::Shared {
  // Successive pages of one request.
  struct Run {
    uint64_t first = 0;
    std::vector<std::span<std::byte>> memory = {};
    uint64_t end() const { return first + memory.size(); }
  };

  explicit Shared(uint64_t max_bytes) : pages(max_bytes), max_pages(pages.max_pages()) {}

  class HeldPages;

  std::mutex mutex;  // guards the members below
  std::condition_variable arrived;
  PageTable pages;
  PageCacheStats counts;
  const uint64_t max_pages;

  void claim(const PagedFile& file, std::span<const ByteRange> ranges, uint64_t max_on_their_way,
             std::vector<uint64_t>& claimed);
  void fetch(const std::shared_ptr<Shared>& self, const PagedFile& file, std::span<const ByteRange> ranges,
             uint64_t max_on_their_way, HeldPages* held);
  void fail(const PagedFile& file, std::span<const uint64_t> claimed, const std::exception_ptr& failure) noexcept;
  std::vector<uint64_t> take_from_disk(const PagedFile& file, const std::vector<uint64_t>& wanted);
  std::vector<Run> runs_of(const PagedFile& file, std::span<const uint64_t> wanted, std::vector<uint64_t>& claimed);
  void request(const std::shared_ptr<Shared>& self, const PagedFile& file, Run run);
  void finish_run(uint64_t file, uint64_t first, uint64_t end, const std::exception_ptr& failure) noexcept;

  void announce(const std::shared_ptr<Shared>& self, const PagedFile& file, std::span<const ByteRange> ranges);
  void read(const std::shared_ptr<Shared>& self, const PagedFile& file, const ByteRange& range, std::byte* into);
  bool copy_if_here(const PagedFile& file, const ByteRange& range, std::byte* into);
  void copy(const Page& page, uint64_t number, const ByteRange& range, std::byte* into);
};

// Pages in use by a reader, which are not evicted meanwhile.
class PageCache::Shared::HeldPages {
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

  // The mutex is held, and all of the pages are there.
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
    if (shared.pages.find(key) != nullptr) continue;
    Page& page = shared.pages.insert(key);
    store(page.bytes, bytes.subspan(whole[i] * kPageBytes - offset, bytes_of_page(file.length, whole[i])));
    page.is_on_disk = is_stored[i];
    shared.pages.finish(page, Stage::here, nullptr);
  }
  shared.pages.evict();
}

void PageCache::announce(const PagedFile& file, std::span<const ByteRange> ranges) {
  const std::shared_ptr<Shared>& shared = shared_.get();
  shared->announce(shared, file, ranges);
}

void PageCache::Shared::announce(const std::shared_ptr<Shared>& self, const PagedFile& file,
                                 std::span<const ByteRange> ranges) {
  fetch(self, file, ranges, std::max<uint64_t>(1, max_pages / 2), nullptr);
}

// Marks pages that are absent or failed as on their way, until `max_on_their_way` are, and adds their numbers, each
// once, to `claimed`. Pages that are here become those used last.
void PageCache::Shared::claim(const PagedFile& file, std::span<const ByteRange> ranges, uint64_t max_on_their_way,
                              std::vector<uint64_t>& claimed) {
  for (const ByteRange& range : ranges) {
    if (range.length == 0 || range.offset >= file.length) continue;
    const uint64_t last = (range.offset + std::min(range.length, file.length - range.offset) - 1) / kPageBytes;
    for (uint64_t number = range.offset / kPageBytes; number <= last; ++number) {
      if (pages.n_on_their_way() >= max_on_their_way) return;
      Page* const page = pages.find({file.number, number});
      if (page != nullptr && page->stage == Stage::here) pages.touch(*page);
      if (page != nullptr && page->stage != Stage::failed) continue;
      claimed.push_back(number);
      page != nullptr ? pages.restart(*page) : static_cast<void>(pages.insert({file.number, number}));
    }
  }
}

void PageCache::Shared::fetch(const std::shared_ptr<Shared>& self, const PagedFile& file,
                              std::span<const ByteRange> ranges, uint64_t max_on_their_way, HeldPages* held) {
  std::vector<uint64_t> claimed;  // nobody else changes these pages
  std::vector<Run> runs;
  try {
    {
      const std::lock_guard lock(mutex);
      claim(file, ranges, max_on_their_way, claimed);
      if (held != nullptr) held->hold(file);
      pages.evict();
    }
    if (claimed.empty()) return;
    std::ranges::sort(claimed);
    const std::vector<uint64_t> wanted = file.disk ? take_from_disk(file, claimed) : claimed;
    const std::lock_guard lock(mutex);
    runs = runs_of(file, wanted, claimed);
    counts.requests += runs.size();
    for (const Run& run : runs) {
      counts.fetched_bytes += std::min(run.end() * kPageBytes, file.length) - run.first * kPageBytes;
    }
  } catch (...) {  // nobody may wait for these pages for ever
    fail(file, claimed, std::current_exception());
    throw;
  }
  for (Run& run : runs) request(self, file, std::move(run));
}

void PageCache::Shared::fail(const PagedFile& file, std::span<const uint64_t> claimed,
                             const std::exception_ptr& failure) noexcept {
  {
    const std::lock_guard lock(mutex);
    for (const uint64_t number : claimed) {
      Page* const page = pages.find({file.number, number});
      if (page != nullptr && page->stage == Stage::on_its_way) pages.finish(*page, Stage::failed, failure);
    }
    pages.evict();
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
  std::vector<Page*> found;
  {
    const std::lock_guard lock(mutex);
    for (const uint64_t number : stored) found.push_back(pages.find({file.number, number}));
  }
  std::vector<bool> is_read;
  for (size_t i = 0; i < stored.size(); ++i) {
    is_read.push_back(file.disk->read(stored[i], {found[i]->bytes, bytes_of_page(file.length, stored[i])}));
    if (!is_read.back()) others.push_back(stored[i]);
  }
  std::ranges::sort(others);
  {
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < stored.size(); ++i) {
      if (!is_read[i]) continue;
      found[i]->is_on_disk = true;
      pages.finish(*found[i], Stage::here, nullptr);
      ++counts.pages_from_disk;
    }
    pages.evict();
  }
  arrived.notify_all();
  return others;
}

// Joins wanted pages, and absent pages in small gaps between them, to runs. The latter are added to `claimed`.
std::vector<PageCache::Shared::Run> PageCache::Shared::runs_of(const PagedFile& file, std::span<const uint64_t> wanted,
                                                               std::vector<uint64_t>& claimed) {
  std::vector<Run> runs;
  const auto add = [&](uint64_t number, const Page& page) {
    runs.back().memory.emplace_back(page.bytes, bytes_of_page(file.length, number));
  };
  const auto joins_last = [&](uint64_t number) {
    if (runs.empty() || number - runs.back().end() > kMaxGapPages) return false;
    if (number - runs.back().first >= kMaxRunPages) return false;
    for (uint64_t gap = runs.back().end(); gap < number; ++gap) {
      if (pages.find({file.number, gap}) != nullptr) return false;
    }
    return true;
  };
  for (const uint64_t number : wanted) {
    if (joins_last(number)) {
      for (uint64_t gap = runs.back().end(); gap < number; ++gap) {
        claimed.push_back(gap);
        add(gap, pages.insert({file.number, gap}));
      }
    } else {
      runs.push_back({number});
    }
    add(number, *pages.find({file.number, number}));
  }
  return runs;
}

void PageCache::Shared::request(const std::shared_ptr<Shared>& self, const PagedFile& file, Run run) {
  const uint64_t first = run.first, end = run.end(), number = file.number;
  try {
    file.reader->read({first * kPageBytes, std::move(run.memory)}, [self, first, end, number](const auto& failure) {
      self->finish_run(number, first, end, failure);
    });
  } catch (...) {  // not even started
    finish_run(number, first, end, std::current_exception());
  }
}

void PageCache::Shared::finish_run(uint64_t file, uint64_t first, uint64_t end,
                                   const std::exception_ptr& failure) noexcept {
  bool is_waited_for = false;
  {
    const std::lock_guard lock(mutex);
    const std::exception_ptr kept = failure ? copy_of(failure) : nullptr;
    for (uint64_t number = first; number < end; ++number) {
      Page& page = *pages.find({file, number});
      pages.finish(page, kept ? Stage::failed : Stage::here, kept);
      is_waited_for = is_waited_for || page.n_readers > 0;
    }
    pages.evict();
  }
  if (is_waited_for) arrived.notify_all();
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

void PageCache::Shared::copy(const Page& page, uint64_t number, const ByteRange& range, std::byte* into) {
  const uint64_t begin = std::max(range.offset, number * kPageBytes);
  const uint64_t end = std::min(range.end(), (number + 1) * kPageBytes);
  store(into + (begin - range.offset), Bytes(page.bytes + begin % kPageBytes, end - begin));
  pages.touch(page);
}

// Copies all of the range if nothing else is to be done for it. The mutex is held.
bool PageCache::Shared::copy_if_here(const PagedFile& file, const ByteRange& range, std::byte* into) {
  for (uint64_t number = range.offset / kPageBytes; number * kPageBytes < range.end(); ++number) {
    const Page* const page = pages.find({file.number, number});
    if (page == nullptr || page->stage != Stage::here || (file.disk && !page->is_on_disk)) return false;
    copy(*page, number, range, into);
  }
  return true;
}

void PageCache::Shared::read(const std::shared_ptr<Shared>& self, const PagedFile& file, const ByteRange& range,
                             std::byte* into) {
  {
    const std::lock_guard lock(mutex);
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
        check_for_interruption();
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

int64_t PageCache::window(const PagedFile& file) const {
  constexpr uint64_t kPagesEach = 2;
  const uint64_t room = max_pages_ / 2 / kPagesEach;
  return static_cast<int64_t>(std::max<uint64_t>(2, std::min<uint64_t>(3 * file.reader->max_in_flight(), room)));
}

PageCacheStats PageCache::stats() const {
  Shared& shared = *shared_.get();
  const std::lock_guard lock(shared.mutex);
  PageCacheStats stats = shared.counts;
  stats.held_bytes = shared.pages.size() * kPageBytes;
  return stats;
}

}  // namespace atompack::io::fetch
