// Huge pages for large allocations.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace atompack::io {

// Hint: memory that is about to be filled costs one page fault per huge page instead of one per small page. Does
// nothing for memory smaller than a huge page.
void prefer_huge_pages(void* memory, size_t bytes);

// Maps fresh pages in one call, where the kernel can.
void populate(void* memory, size_t bytes);

// Uninitialized memory, in whole huge pages if there is a lot of it. To be freed by std::free().
void* allocate_temporary(size_t bytes);

template <typename T>
struct TemporaryAllocator {
  using value_type = T;

  T* allocate(size_t n) { return static_cast<T*>(allocate_temporary(n * sizeof(T))); }
  void deallocate(T* memory, size_t) noexcept { std::free(memory); }
  void construct(T*) noexcept {}  // elements are not initialized
  void construct(T* at, const T& value) noexcept { *at = value; }
  bool operator==(const TemporaryAllocator&) const = default;
};
// Bytes that are filled, used and freed soon.
using TemporaryBytes = std::vector<std::byte, TemporaryAllocator<std::byte>>;

}  // namespace atompack::io
