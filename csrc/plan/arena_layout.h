// Layout of an arena, the single block of memory that holds all tensors of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checked_math.h"
#include "base/dtype.h"

namespace atompack::plan {

// Assigns aligned offsets in ascending order. Sizes may come from a file, so an overflow throws CorruptFileError.
class ArenaLayout {
 public:
  static constexpr size_t kAlignment = 64;

  ArenaLayout() = default;
  // Continues after `bytes`, a multiple of the alignment.
  explicit ArenaLayout(size_t bytes) : size_(bytes) {}

  // Reserves `count` items of `item_bytes` each; returns the offset of the first.
  size_t add(uint64_t count, size_t item_bytes) {
    const uint64_t bytes = checked_mul(count, item_bytes, kSizeName);
    const size_t offset = size_;
    size_ = checked_add(offset, checked_add(bytes, kAlignment - 1, kSizeName) / kAlignment * kAlignment, kSizeName);
    return offset;
  }

  // Reserves a tensor of this shape.
  size_t add(DType dtype, std::span<const int64_t> shape) {
    uint64_t count = 1;
    for (const int64_t dim : shape) count = checked_mul(count, static_cast<uint64_t>(dim), kSizeName);
    return add(count, item_bytes(dtype));
  }

  // Returns the size of the arena in bytes.
  size_t size() const { return size_; }

 private:
  static constexpr std::string_view kSizeName = "batch size";
  size_t size_ = 0;
};

}  // namespace atompack::plan
