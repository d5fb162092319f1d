// Memory of pages, aligned to their size, which is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "io/fetch/page.h"

namespace atompack::io::fetch {

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
