#include "io/fetch/block_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "base/lru_cache.h"
#include "codec/checksums.h"
#include "io/fetch/group_file.h"
#include "io/file.h"
#include "io/process_fd.h"
#include "threads/per_process.h"

namespace atompack::io::fetch {

// A time without attempts at something that failed, and the reason for it. Thread-safe.
class Backoff {
 public:
  void begin(std::string reason, std::chrono::milliseconds length) {
    const std::scoped_lock lock(mutex_);
    reason_ = std::move(reason);
    until_ = now() + std::chrono::duration_cast<Clock::duration>(length).count();
  }
  bool is_over() const {
    const Clock::rep until = until_.load(std::memory_order_relaxed);
    return until == kNone || now() >= until;
  }
  // After an attempt that succeeded.
  void end() {
    if (until_.load(std::memory_order_relaxed) == kNone) return;
    const std::scoped_lock lock(mutex_);
    reason_.clear();
    until_ = kNone;
  }
  // Empty if it is missing; stays until an attempt succeeds.
  std::string reason() const {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep kNone = 0;
  static Clock::rep now() { return Clock::now().time_since_epoch().count(); }

  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<Clock::rep> until_ = kNone;
};

namespace {

constexpr std::string_view kAccountName = "account.lock";
constexpr size_t kAccountBytes = 12;  // the sum, and its checksum

std::optional<uint64_t> read_account(int fd, const std::string& path) {
  std::array<std::byte, kAccountBytes> bytes{};
  if (read_at(fd, 0, bytes, path) != bytes.size()) return std::nullopt;
  const Bytes sum = Bytes(bytes).first(sizeof(uint64_t));
  if (load_le<uint32_t>(bytes.data() + sum.size()) != codec::crc32c(sum)) return std::nullopt;
  return load_le<uint64_t>(sum.data());
}

void write_account(int fd, uint64_t sum, const std::string& path) {
  std::array<std::byte, kAccountBytes> bytes{};
  std::byte* const end = store_le(bytes.data(), sum);
  store_le(end, codec::crc32c({bytes.data(), end}));
  write_at(fd, 0, bytes, path);
}

uint64_t portion_of_cache(uint64_t max_bytes) {
  return std::min<uint64_t>(std::clamp<uint64_t>(max_bytes / 1024, 64 << 10, 64 << 20), max_bytes / 4);
}

int64_t steady_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::chrono::milliseconds kRetryFull{1000};

size_t limit_of_open_files(size_t max_open_files) {
  uint64_t limit = max_open_files;
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) limit = std::min<uint64_t>(limit, descriptors.rlim_cur / 4);
  return std::max<uint64_t>(limit, 1);
}

// A pass over page numbers, in runs that belong to one group.
template <typename Visit>
void for_each_group(std::span<const uint64_t> pages, const Visit& visit) {
  for (size_t begin = 0, end = 0; begin < pages.size(); begin = end) {
    const uint64_t number = pages[begin] / kGroupPages;
    std::vector<size_t> local;
    for (; end < pages.size() && pages[end] / kGroupPages == number && (end == begin || pages[end] > pages[end - 1]);
         ++end) {
      local.push_back(pages[end] % kGroupPages);
    }
    visit(begin, number, local);
  }
}

}  // namespace

// Disk space of a block cache, shared by all processes that write to it. Space is taken from a common account in
// portions, so that processes meet rarely. When the account is full, the process that finds it full adds up the files
// and evicts some. Processes together may exceed the limit by a portion each. Thread-safe.
class CacheSpace {
 public:
  CacheSpace(std::string folder, uint64_t max_bytes, std::function<void(const GroupId&)> close)
      : folder_(std::move(folder)),
        max_bytes_(max_bytes),
        portion_(portion_of_cache(max_bytes)),
        close_(std::move(close)) {}

  // Bytes taken from the account at a time: a thousandth of the cache, 64 KiB to 64 MiB, at most a quarter.
  uint64_t portion() const { return portion_; }

  enum class Answer : uint8_t { taken, busy, full };

  // Takes space for a write. `busy`: another thread or process is at the account; `full`: no file can be removed, which
  // is then found out again after a second. Never waits, but may evict files. Throws IoError.
  Answer take(uint64_t bytes) {
    if (try_take(bytes)) {
      // Early, because another process may be busy evicting when the portion ends.
      if (available_.load(std::memory_order_relaxed) < static_cast<int64_t>(portion_ / 2)) update();
      return Answer::taken;
    }
    const Answer updated = update();
    if (updated != Answer::taken || try_take(bytes)) return updated;
    return bytes > portion_ ? Answer::full : Answer::busy;
  }

  // Takes space that was used already.
  void charge(uint64_t bytes) { available_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed); }

  uint64_t evicted_bytes() const { return evicted_bytes_.load(std::memory_order_relaxed); }

 private:
  bool try_take(uint64_t bytes) {
    const auto wanted = static_cast<int64_t>(bytes);
    int64_t available = available_.load(std::memory_order_relaxed);
    while (available >= wanted) {
      if (available_.compare_exchange_weak(available, available - wanted, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  Answer update() {
    constexpr int64_t kRetryFull = 1000;
    const std::unique_lock lock(renewing_, std::try_to_lock);
    if (!lock) return Answer::busy;
    if (steady_milliseconds() < full_until_) return Answer::full;
    const std::string path = cat(folder_, '/', kAccountName);
    const ProcessFd account(
        UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600)));
    if (!account) throw_errno(path);
    identify(account.get(), path);  // throws unless it is a regular file
    if (::flock(account.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return Answer::busy;
      throw_errno(path);
    }
    // Unlocks, because a child that is forked now may still have the descriptor.
    const std::unique_ptr<const ProcessFd, void (*)(const ProcessFd*)> unlock(
        &account, [](const ProcessFd* locked) { ::flock(locked->get(), LOCK_UN); });
    const Answer answer = update_locked(account.get(), path);
    if (answer == Answer::full) full_until_ = steady_milliseconds() + kRetryFull;
    return answer;
  }

  Answer update_locked(int account, const std::string& path) {
    std::optional<uint64_t> sum = read_account(account, path);
    if (!sum || *sum > max_bytes_ - portion_) {
      // Well below the limit, so that the files are not added up for each portion.
      const uint64_t limit = max_bytes_ - portion_;
      const Eviction result = evict(folder_, limit, limit - std::min(limit, max_bytes_ / 16), close_);
      evicted_bytes_.fetch_add(result.bytes_removed, std::memory_order_relaxed);
      available_.store(0, std::memory_order_relaxed);  // its former portion is part of the files, or unused
      sum = result.bytes_left;
      if (*sum > limit) {
        write_account(account, *sum, path);
        return Answer::full;
      }
    }
    write_account(account, *sum + portion_, path);
    available_.fetch_add(static_cast<int64_t>(portion_), std::memory_order_relaxed);
    return Answer::taken;
  }

  const std::string folder_;
  const uint64_t max_bytes_, portion_;
  const std::function<void(const GroupId&)> close_;
  std::mutex renewing_;
  std::atomic<int64_t> available_ = 0;
  int64_t full_until_ = 0;  // milliseconds of a steady clock; guarded by renewing_
  std::atomic<uint64_t> evicted_bytes_ = 0;
};

// All that belongs to one process.
struct CacheOfProcess {
  CacheOfProcess(const std::string& folder, uint64_t max_bytes, const BlockCacheOptions& options)
      : folder(folder),
        files(limit_of_open_files(options.max_open_files)),
        space(folder, max_bytes, [this](const GroupId& group) { files.drop(group); }),
        retry_after(options.retry_after) {}

  // Returns nullptr if there is no file. Throws IoError.
  std::shared_ptr<const GroupFile> open(const GroupId& group) {
    if (auto file = files.find(group)) return file;
    auto file = GroupFile::open(folder, group);
    return file ? files.keep(group, std::move(file), 1) : nullptr;
  }

  // Also returns nullptr for failures of the system.
  std::shared_ptr<const GroupFile> try_open(const GroupId& group) {
    try {
      return open(group);
    } catch (const IoError&) {
      return nullptr;
    }
  }

  // `n_pages`: those of the group.
  std::shared_ptr<const GroupFile> open_or_create(const GroupId& group, size_t n_pages) {
    if (auto file = files.find(group)) {
      if (file->is_writable() && file->has_name()) return file;
      files.drop(group);
    }
    auto file = GroupFile::open_or_create(folder, group, n_pages);
    return file ? files.keep(group, std::move(file), 1) : nullptr;
  }

  uint64_t max_pages_of_write() const { return std::max<uint64_t>(1, space.portion() / 2 / kPageBytes); }

  // Returns false if there is no space.
  bool take(uint64_t bytes) {
    const CacheSpace::Answer answer = space.take(bytes);
    if (answer == CacheSpace::Answer::full) {
      backoff.begin("the cache is full, and its files cannot be removed", std::min(retry_after, kRetryFull));
    }
    return answer == CacheSpace::Answer::taken;
  }

  void stop(const IoError& error) {
    if (error.code() != ENOENT) return backoff.begin(error.what(), retry_after);
    // The folder was removed.
    try {
      make_cache_folder(folder);
    } catch (const IoError& again) {
      backoff.begin(again.what(), retry_after);
    }
  }

  const std::string folder;
  LruCache<GroupId, GroupFile> files;
  CacheSpace space;
  const std::chrono::milliseconds retry_after;
  Backoff backoff;
  std::atomic<uint64_t> hits = 0, misses = 0, rejected = 0, written = 0, skipped = 0;
};

struct BlockCache::Shared {
  Shared(std::string in_folder, uint64_t max, const BlockCacheOptions& options)
      : folder(std::move(in_folder)),
        max_bytes(max),
        process([this, options] { return std::make_unique<CacheOfProcess>(folder, max_bytes, options); }) {}

  const std::string folder;
  const uint64_t max_bytes;
  const threads::PerProcess<CacheOfProcess> process;
};

BlockCache::BlockCache(std::string folder, uint64_t max_bytes, const BlockCacheOptions& options) {
  make_cache_folder(folder);
  shared_ = std::make_shared<const Shared>(std::move(folder), max_bytes, options);
}

std::shared_ptr<const CachedObject> BlockCache::object(std::string_view url, const ObjectVersion& version) const {
  const auto key = key_of(url, version);
  if (!key) return nullptr;
  return std::shared_ptr<const CachedObject>(new CachedObject(shared_, *key, version.size));
}

BlockCacheStats BlockCache::stats() const {
  const CacheOfProcess& mine = shared_->process.get();
  return {mine.hits,
          mine.misses,
          mine.rejected,
          mine.written,
          mine.skipped,
          mine.space.evicted_bytes(),
          mine.backoff.reason()};
}

const std::string& BlockCache::folder() const { return shared_->folder; }
uint64_t BlockCache::max_bytes() const { return shared_->max_bytes; }

CachedObject::CachedObject(std::shared_ptr<const BlockCache::Shared> cache, const ObjectKey& key, uint64_t n_bytes)
    : cache_(std::move(cache)), key_(key), n_bytes_(n_bytes) {}

std::vector<bool> CachedObject::read(std::span<const uint64_t> pages, std::span<std::byte* const> into) const {
  struct OnDisk {
    size_t i;
    size_t local;
    GroupId group;
    std::shared_ptr<const GroupFile> file;
  };
  for (const uint64_t page : pages) check_pages(page, 1);
  CacheOfProcess& mine = cache_->process.get();
  std::vector<bool> is_read(pages.size());
  std::vector<OnDisk> on_disk;
  const auto read_one = [&](size_t i, size_t local, const GroupId& group, const auto& file, GroupFile::Wait wait) {
    const auto answer = file->read(local, {into[i], bytes_of_page(n_bytes_, pages[i])}, wait);
    if (answer == GroupFile::Answer::would_wait) return on_disk.push_back({i, local, group, file});
    is_read[i] = answer == GroupFile::Answer::good;
    const bool is_gone = answer == GroupFile::Answer::damaged && !file->has_valid_header();
    if (answer == GroupFile::Answer::damaged && !is_gone) mine.rejected.fetch_add(1, std::memory_order_relaxed);
    if (!file->touch() || is_gone) mine.files.drop(group);
  };
  for_each_group(pages, [&](size_t first, uint64_t number, std::span<const size_t> local) {
    try {
      const GroupId group{key_, number};
      const auto file = mine.open(group);
      for (size_t k = 0; file && k < local.size(); ++k) {
        read_one(first + k, local[k], group, file, GroupFile::Wait::no);
      }
    } catch (const IoError&) {
      return;  // absent
    }
  });
  if (on_disk.size() > 1) {
    for (const OnDisk& page : on_disk) page.file->will_need(page.local);
  }
  for (const OnDisk& page : on_disk) {
    try {
      read_one(page.i, page.local, page.group, page.file, GroupFile::Wait::yes);
    } catch (const IoError&) {
      continue;  // absent
    }
  }
  const auto n_read = static_cast<uint64_t>(std::ranges::count(is_read, true));
  mine.hits.fetch_add(n_read, std::memory_order_relaxed);
  mine.misses.fetch_add(pages.size() - n_read, std::memory_order_relaxed);
  return is_read;
}

bool CachedObject::copy(uint64_t offset, std::span<std::byte> into) const {
  if (offset > n_bytes_ || into.size() > n_bytes_ - offset) throw InternalError("bytes beyond the end of an object");
  CacheOfProcess& mine = cache_->process.get();
  const uint64_t end = offset + into.size();
  uint64_t n_copied = 0;
  for (uint64_t begin = offset; begin < end; ++n_copied) {
    const uint64_t page = begin / kPageBytes;
    const uint64_t next = std::min(end, (page + 1) * kPageBytes);
    const GroupId group{key_, page / kGroupPages};
    const auto file = mine.files.find(group);
    if (file == nullptr) return false;
    if (!file->touch()) mine.files.drop(group);
    const auto part = into.subspan(begin - offset, next - begin);
    if (!file->copy(page % kGroupPages, bytes_of_page(n_bytes_, page), begin % kPageBytes, part)) return false;
    begin = next;
  }
  mine.hits.fetch_add(n_copied, std::memory_order_relaxed);
  return true;
}

std::vector<ByteRange> CachedObject::announce(std::span<const ByteRange> ranges) const {
  constexpr size_t kMaxSamples = 8;
  CacheOfProcess& mine = cache_->process.get();
  struct Stored {
    std::shared_ptr<const GroupFile> file;
    size_t page;
  };
  std::vector<Stored> stored;
  std::vector<ByteRange> others;
  for (const ByteRange& range : ranges) {
    if (range.length == 0 || range.offset >= n_bytes_) continue;
    const size_t n_before = stored.size();
    const uint64_t last = (range.offset + std::min(range.length, n_bytes_ - range.offset) - 1) / kPageBytes;
    bool is_stored = true;
    for (uint64_t page = range.offset / kPageBytes; page <= last && is_stored; ++page) {
      auto file = mine.try_open({key_, page / kGroupPages});
      is_stored = file != nullptr && file->is_mapped(page % kGroupPages);
      if (is_stored) stored.push_back({std::move(file), page % kGroupPages});
    }
    if (is_stored) continue;
    stored.resize(n_before);
    others.push_back(range);
  }
  const bool is_due = residency_.is_due();
  if (!stored.empty() && (is_due || residency_.state() == Residency::State::absent)) {
    const auto sample = std::span(stored).first(std::min(stored.size(), kMaxSamples));
    residency_.update(std::ranges::all_of(sample, [](const Stored& at) { return at.file->is_in_memory(at.page); }));
  }
  if (residency_.state() == Residency::State::absent) {
    for (const Stored& at : stored) at.file->will_need(at.page);
  }
  return others;
}

void CachedObject::write(uint64_t first_page, Bytes pages) const {
  const uint64_t n = count_pages(pages.size());
  check_pages(first_page, n);
  if (n > 0 && pages.size() != (n - 1) * kPageBytes + bytes_of_page(n_bytes_, first_page + n - 1)) {
    throw InternalError("size of pages to be written");
  }
  CacheOfProcess& mine = cache_->process.get();
  uint64_t written = 0;
  try {
    // Space first: its renewal may evict the file of this group, if it is not being used at that time.
    while (written < n && mine.backoff.is_over()) {
      const uint64_t page = first_page + written;
      const uint64_t number = page / kGroupPages;
      const uint64_t here = std::min({n - written, kGroupPages - page % kGroupPages, mine.max_pages_of_write()});
      if (!mine.take(here * kPageBytes)) break;
      const uint64_t n_in_group = std::min<uint64_t>(kGroupPages, n_pages() - number * kGroupPages);
      const GroupId group{key_, number};
      const auto file = mine.open_or_create(group, n_in_group);
      if (!file) break;
      const Bytes rest = pages.subspan(written * kPageBytes);
      mine.space.charge(file->write(page % kGroupPages, rest.first(std::min(rest.size(), here * kPageBytes))));
      if (!file->touch()) mine.files.drop(group);
      written += here;
    }
    if (written == n) mine.backoff.end();
  } catch (const IoError& error) {
    mine.stop(error);
  }
  mine.written.fetch_add(written, std::memory_order_relaxed);
  mine.skipped.fetch_add(n - written, std::memory_order_relaxed);
}

std::vector<bool> CachedObject::find(std::span<const uint64_t> pages) const {
  for (const uint64_t page : pages) check_pages(page, 1);
  CacheOfProcess& mine = cache_->process.get();
  std::vector<bool> found(pages.size());
  for_each_group(pages, [&](size_t first, uint64_t number, std::span<const size_t> local) {
    try {
      const auto file = mine.open({key_, number});
      if (!file) return;
      const std::vector<bool> here = file->find(local);
      std::copy(here.begin(), here.end(), found.begin() + static_cast<std::ptrdiff_t>(first));
    } catch (const IoError&) {
      return;  // absent
    }
  });
  return found;
}

void CachedObject::check_pages(uint64_t first, uint64_t n) const {
  if (first > n_pages() || n > n_pages() - first) throw InternalError("pages beyond the end of an object");
}

}  // namespace atompack::io::fetch
