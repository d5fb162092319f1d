// Pages: the units in which caches keep the bytes of remote objects.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace atompack::io::fetch {

inline constexpr size_t kPageBytes = 4096;

constexpr uint64_t count_pages(uint64_t object_bytes) {
  return object_bytes / kPageBytes + (object_bytes % kPageBytes != 0 ? 1 : 0);
}

// The last page of an object may be shorter than the others. Requires page < count_pages(object_bytes).
constexpr size_t bytes_of_page(uint64_t object_bytes, uint64_t page) {
  return static_cast<size_t>(std::min<uint64_t>(kPageBytes, object_bytes - page * kPageBytes));
}

// Memory of pages, aligned to their size, which is used again.
struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{kPageBytes}); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeAligned>;

inline AlignedMemory make_aligned(size_t n_bytes) {
  return AlignedMemory(static_cast<std::byte*>(::operator new(n_bytes, std::align_val_t{kPageBytes})));
}

// Grows in blocks, and never shrinks. Not thread-safe.
class PageMemory {
 public:
  std::byte* take() {
    if (free_.empty()) grow();
    std::byte* const page = free_.back();
    free_.pop_back();
    return page;
  }
  void give_back(std::byte* page) noexcept { free_.push_back(page); }  // has room for all pages

 private:
  static constexpr size_t kBlockPages = 32;

  void grow() {
    std::byte* const block = blocks_.emplace_back(make_aligned(kBlockPages * kPageBytes)).get();
    if (const size_t n = blocks_.size() * kBlockPages; free_.capacity() < n) free_.reserve(2 * n);
    for (size_t i = kBlockPages; i-- > 0;) free_.push_back(block + i * kPageBytes);
  }

  std::vector<AlignedMemory> blocks_;
  std::vector<std::byte*> free_;
};

}  // namespace atompack::io::fetch
