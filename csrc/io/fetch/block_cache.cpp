#include "io/fetch/block_cache.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/lru_cache.h"
#include "io/fetch/cache_space.h"
#include "io/fetch/group_file.h"
#include "io/fetch/pause.h"
#include "threads/per_process.h"

namespace atompack::io::fetch {
namespace {

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
      pause.begin("the cache is full, and its files cannot be removed", std::min(retry_after, kRetryFull));
    }
    return answer == CacheSpace::Answer::taken;
  }

  void stop(const IoError& error) {
    if (error.code() != ENOENT) return pause.begin(error.what(), retry_after);
    // The folder was removed.
    try {
      make_cache_folder(folder);
    } catch (const IoError& again) {
      pause.begin(again.what(), retry_after);
    }
  }

  const std::string folder;
  LruCache<GroupId, GroupFile> files;
  CacheSpace space;
  const std::chrono::milliseconds retry_after;
  Pause pause;
  std::atomic<uint64_t> hits = 0, misses = 0, rejected = 0, written = 0, skipped = 0;
};

struct BlockCache::Shared {
  Shared(std::string in_folder, uint64_t max, const BlockCacheOptions& options)
      : folder(std::move(in_folder)),
        max_bytes(max),
        process([this, options] { return std::make_unique<CacheOfProcess>(folder, max_bytes, options); }) {}

  const std::string folder;
  const uint64_t max_bytes;
  const PerProcess<CacheOfProcess> process;
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
  return {mine.hits,          mine.misses, mine.rejected, mine.written, mine.skipped, mine.space.evicted_bytes(),
          mine.pause.reason()};
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
    while (written < n && mine.pause.is_over()) {
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
    if (written == n) mine.pause.end();
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
