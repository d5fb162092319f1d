// Decoded blocks that are kept for the next scan: all readers of a process share them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/recent.h"

namespace atompack::array_format {

// Memory that is not filled before it is written.
class DecodedBytes {
 public:
  explicit DecodedBytes(size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  Bytes bytes() const { return {bytes_.get(), size_}; }
  std::span<std::byte> writable() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_;
};

// By serial number of the layer and id of the block.
using BlockCache = Recent<std::pair<uint64_t, uint32_t>, DecodedBytes>;

// That of this process; a fork has its own, which begins empty. Up to 256 MiB.
BlockCache& block_cache();

}  // namespace atompack::array_format
