// Cache of decoded blocks, shared by all readers of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <tuple>

#include "base/bytes.h"
#include "base/lru_cache.h"
#include "io/huge_pages.h"

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

// By serial number of the layer, id of the block, and offset of a part of it (kWholeBlock: all of it).
using BlockCache = LruCache<std::tuple<uint64_t, uint32_t, uint64_t>, DecodedBytes>;
inline constexpr uint64_t kWholeBlock = ~uint64_t{0};

// The cache of this process, which is empty after a fork. Up to 256 MiB.
BlockCache& block_cache();

}  // namespace atompack::array_file
