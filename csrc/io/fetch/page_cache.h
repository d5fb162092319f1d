// Pages of remote files in memory, fetched in the background.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/fetch/block_cache.h"
#include "io/fetch/range_reader.h"
#include "io/read_ahead.h"
#include "threads/per_process.h"

namespace atompack::io::fetch {

struct PageCacheStats {
  uint64_t held_bytes = 0;       // pages in memory, and on their way
  uint64_t requests = 0;         // sent
  uint64_t fetched_bytes = 0;    // by them
  uint64_t pages_from_disk = 0;  // from the block cache
};

// A file of which pages are kept: its bytes, and the places that have them.
struct PagedFile {
  uint64_t number = 0;  // in the cache
  uint64_t length = 0;
  std::shared_ptr<const RangeReader> reader;
  std::shared_ptr<const CachedObject> disk;  // nullptr: only memory
};

// At most `max_bytes` are kept, least recently used pages go first. More is held while it is on its way or being read.
// Thread-safe. Pages on their way when the cache is destroyed arrive in memory that lives as long as they need it. A
// fork begins with an empty cache. Memory of pages is aligned to kPageBytes.
class PageCache {
 public:
  explicit PageCache(uint64_t max_bytes);
  ~PageCache();

  PagedFile add(uint64_t length, std::shared_ptr<const RangeReader> reader, std::shared_ptr<const CachedObject> disk);

  // Keeps bytes that are known already; pages of which only a part is known are omitted.
  void put(const PagedFile& file, uint64_t offset, Bytes bytes);

  // Starts fetching what is neither here nor on its way, up to half of `max_bytes` at a time; the rest of the ranges is
  // left for later.
  void announce(const PagedFile& file, std::span<const ByteRange> ranges);

  // True if all pages of a range inside of the file are here or on their way.
  bool has(const PagedFile& file, const ByteRange& range) const;

  // Copies bytes inside of the file, and waits for those that are not here. Throws the error of the reader.
  void read(const PagedFile& file, uint64_t offset, std::span<std::byte> into);

  // Number of ranges to announce ahead, enough to keep all requests busy while a batch is made, as far as there is
  // memory for them.
  int64_t window(const PagedFile& file) const;

  PageCacheStats stats() const;

 private:
  struct Shared;
  uint64_t max_pages_;
  std::atomic<uint64_t> n_files_ = 0;
  threads::PerProcess<std::shared_ptr<Shared>> shared_;
};

}  // namespace atompack::io::fetch
