// Byte buffer that is written once, front to back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace atompack {

// A growing buffer that leaves new memory uninitialized.
class Buffer {
 public:
  // Appends n uninitialized bytes. The first allocation is at least `min_capacity` bytes, so that few follow.
  std::byte* extend(size_t n, size_t min_capacity) {
    if (capacity_ - size_ < n) grow(std::max({size_ + n, 2 * capacity_, min_capacity}));
    std::byte* const room = bytes_.get() + size_;
    size_ += n;
    return room;
  }
  // Drops the bytes from `size` on. Requires size <= current size.
  void shrink(size_t size) { size_ = size; }

  std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  std::span<const std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  void grow(size_t capacity) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
    std::copy_n(bytes_.get(), size_, larger.get());
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<std::byte[]> bytes_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace atompack
