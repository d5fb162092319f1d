// Growing memory for the neighbor pairs of several structures, one after the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/huge_pages.h"

namespace atompack::physics {

// A neighbor as seen from one of the two atoms: r_j - r_i + S cell points to it.
struct Shift {
  float cells[3];  // S, integers
};
struct Vector {
  double xyz[3];

  double length() const { return std::sqrt(xyz[0] * xyz[0] + xyz[1] * xyz[1] + xyz[2] * xyz[2]); }
};

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
using PairColumn = std::vector<T, UninitializedAllocator<T>>;

// Pairs of a structure are sorted by i; atoms are numbered within their structure.
struct PairList {
  PairColumn<uint32_t> i, j;
  PairColumn<Shift> shifts;
  PairColumn<Vector> vectors;  // empty unless requested
  std::vector<size_t> ends;    // per structure: the number of pairs up to its end

  size_t size() const { return ends.empty() ? 0 : ends.back(); }

  // Keeps its memory.
  void clear() {
    i.clear();
    j.clear();
    shifts.clear();
    vectors.clear();
    ends.clear();
  }
};

}  // namespace atompack::physics
