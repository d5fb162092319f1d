// Vectors of many numbers that are written once.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "io/huge_pages.h"

namespace atompack::physics {

// Leaves the elements that a vector grows by uninitialized, and takes huge pages for large vectors.
template <typename T>
struct UninitializedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  using std::allocator<T>::allocator;

  T* allocate(size_t n) {
    T* const memory = std::allocator<T>::allocate(n);
    io::prefer_huge_pages(memory, n * sizeof(T));
    return memory;
  }
  void construct(T* place) { ::new (static_cast<void*>(place)) T; }
  template <typename... Args>
  void construct(T* place, Args&&... args) {
    std::construct_at(place, std::forward<Args>(args)...);
  }
};
template <typename T>
using Column = std::vector<T, UninitializedAllocator<T>>;

}  // namespace atompack::physics
