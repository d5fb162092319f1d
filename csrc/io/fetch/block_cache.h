// Cache of remote objects on local disk, shared by all processes of a node. FORMAT.md describes its files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "io/fetch/cache_folder.h"
#include "io/fetch/group_id.h"
#include "io/fetch/page.h"
#include "io/fetch/range_reader.h"
#include "io/read_ahead.h"

namespace atompack::io::fetch {

struct BlockCacheOptions {
  size_t max_open_files = 256;                    // of this process; fewer if the limit of the system is small
  std::chrono::milliseconds retry_after{30'000};  // after an error of the disk
};

// Counts of this process.
struct BlockCacheStats {
  uint64_t hits = 0, misses = 0;  // pages read; a page whose checksum is wrong is a miss too
  uint64_t rejected = 0;          // pages whose checksum was wrong
  uint64_t written = 0;           // pages
  uint64_t skipped = 0;           // pages not written: no space, an error, or another process was busy with it
  uint64_t evicted_bytes = 0;     // by this process
  std::string stopped;            // why pages are not written at present; empty if they are
};

class CachedObject;

// Thread-safe. A fork uses its copies of this and of its objects as the parent does, with counts of its own.
class BlockCache {
 public:
  // Makes the folder, for this user alone, if missing. Throws IoError if that fails; a folder that cannot be
  // written to is used for reading.
  BlockCache(std::string folder, uint64_t max_bytes, const BlockCacheOptions& options = {});

  // One version of an object. Returns nullptr if it has no strong ETag, so that a change could not be noticed. Objects
  // may outlive the cache.
  std::shared_ptr<const CachedObject> object(std::string_view url, const ObjectVersion& version) const;

  BlockCacheStats stats() const;
  CacheUsage usage() const { return usage(folder()); }
  const std::string& folder() const;
  uint64_t max_bytes() const;

  // Adds up the files of any folder without opening a cache there. Throws IoError.
  static CacheUsage usage(const std::string& folder) { return usage_of(folder); }

 private:
  friend class CachedObject;
  struct Shared;
  std::shared_ptr<const Shared> shared_;
};

// The stored pages of one version of an object. Pages may come and go with other processes. Thread-safe; reading never
// waits for another process. Errors of the disk and damaged pages count as absent pages. Throws InternalError for pages
// beyond the object's end and wrong sizes.
class CachedObject {
 public:
  uint64_t n_pages() const { return count_pages(n_bytes_); }

  // Reads those of the pages that are stored and correct, and returns which they are. The memory of the others, each of
  // bytes_of_page(), is undefined in that case. The disk reads many pages in parallel. Fastest for ascending numbers.
  std::vector<bool> read(std::span<const uint64_t> pages, std::span<std::byte* const> into) const;

  // Copies bytes inside of the object from files that are open and mapped, which costs a tenth of read(). Returns false
  // unless all pages of the bytes are present.
  bool copy(uint64_t offset, std::span<std::byte> into) const;

  // Returns those of the ranges that copy() will not find. Where the others are not in memory, starts reading them from
  // the disk.
  std::vector<ByteRange> announce(std::span<const ByteRange> ranges) const;

  // Stores successive pages, all of them whole, if that is possible. May evict other objects' pages, which can take
  // many milliseconds.
  void write(uint64_t first_page, Bytes pages) const;

  // Finds out which pages are stored, without checking their checksums. Fastest for ascending numbers.
  std::vector<bool> find(std::span<const uint64_t> pages) const;
  bool has(uint64_t page) const { return find({&page, 1}).front(); }

 private:
  friend class BlockCache;
  CachedObject(std::shared_ptr<const BlockCache::Shared> cache, const ObjectKey& key, uint64_t n_bytes);

  void check_pages(uint64_t first, uint64_t n) const;

  std::shared_ptr<const BlockCache::Shared> cache_;
  ObjectKey key_;
  uint64_t n_bytes_;
  Residency residency_;  // of its files
};

}  // namespace atompack::io::fetch
