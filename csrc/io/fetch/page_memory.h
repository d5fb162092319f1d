// Memory of pages, aligned to their size, which is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "io/fetch/page.h"

namespace atompack::io::fetch {

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
  static constexpr std::align_val_t kAlignment{kPageBytes};

  struct Delete {
    void operator()(std::byte* block) const { ::operator delete(block, kAlignment); }
  };

  void grow() {
    auto* const block = static_cast<std::byte*>(::operator new(kBlockPages * kPageBytes, kAlignment));
    blocks_.emplace_back(block);
    if (const size_t n = blocks_.size() * kBlockPages; free_.capacity() < n) free_.reserve(2 * n);
    for (size_t i = kBlockPages; i-- > 0;) free_.push_back(block + i * kPageBytes);
  }

  std::vector<std::unique_ptr<std::byte, Delete>> blocks_;
  std::vector<std::byte*> free_;
};

}  // namespace atompack::io::fetch
