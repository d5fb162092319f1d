// Cache of decoded blocks, shared by readers of a process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>

#include "base/bytes.h"
#include "base/lru_cache.h"
#include "io/huge_pages.h"
#include "threads/per_process.h"

namespace atompack::array_file {

// Uninitialized memory.
class DecodedBytes {
 public:
  explicit DecodedBytes(size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {
    io::prefer_huge_pages(bytes_.get(), size);
    constexpr size_t kManyPages = size_t{128} << 10;
    if (size >= kManyPages) io::populate(bytes_.get(), size);
  }
  Bytes bytes() const { return {bytes_.get(), size_}; }
  std::span<std::byte> writable() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_;
};

// Keeps decoded blocks, those that were used last. Thread-safe; a fork begins with an empty one.
class BlockCache {
 public:
  // Serial number of the layer, id of the block, and offset of a part of it (kWholeBlock: all of it).
  using Key = std::tuple<uint64_t, uint32_t, uint64_t>;

  explicit BlockCache(uint64_t limit);

  std::shared_ptr<const DecodedBytes> find(const Key& key) { return content().blocks.find(key); }
  // See LruCache.
  std::shared_ptr<const DecodedBytes> keep(const Key& key, std::shared_ptr<const DecodedBytes> block, uint64_t cost) {
    return content().blocks.keep(key, std::move(block), cost);
  }
  void clear() { content().blocks.clear(); }
  uint64_t limit() const { return limit_; }
  uint64_t used() { return content().blocks.used(); }

  // Counts a block that was needed: found here, or decoded.
  void count(bool is_found) { (is_found ? content().hits : content().misses).fetch_add(1, std::memory_order_relaxed); }
  uint64_t hits() { return content().hits; }
  uint64_t misses() { return content().misses; }

 private:
  struct Content {
    explicit Content(uint64_t limit) : blocks(limit) {}
    LruCache<Key, DecodedBytes> blocks;
    std::atomic<uint64_t> hits{0}, misses{0};
  };

  Content& content() { return content_.get(); }

  uint64_t limit_;
  io::PerProcess<Content> content_;
};

inline constexpr uint64_t kWholeBlock = ~uint64_t{0};

// The cache that readers of a process share unless they are given another. Up to 256 MiB.
std::shared_ptr<BlockCache> shared_block_cache();

}  // namespace atompack::array_file
