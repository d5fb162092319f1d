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

// Vectors of many numbers that are written once.

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

// A neighbor as seen from one of the two atoms: r_j - r_i + S cell points to it.
struct Shift {
  float cells[3];  // S, integers
};
struct Vector {
  double xyz[3];

  double length() const { return std::sqrt(xyz[0] * xyz[0] + xyz[1] * xyz[1] + xyz[2] * xyz[2]); }
};

// Pairs of a structure are sorted by i; atoms are numbered within their structure.
struct PairList {
  Column<uint32_t> i, j;
  Column<Shift> shifts;
  Column<Vector> vectors;    // empty unless requested
  std::vector<size_t> ends;  // per structure: the number of pairs up to its end

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

// Pool of neighbor lists: fresh memory costs more than writing the pairs.
template <typename T>
struct GiveBack {
  void operator()(T* list) const noexcept;
};

// An empty list, which returns to the pool with its memory when its owner is destroyed.
template <typename T>
using Pooled = std::unique_ptr<T, GiveBack<T>>;

// Thread-safe. T: PairList, PlacesNear, Column<uint32_t>.
template <typename T>
Pooled<T> take_from_pool();

using PooledPairs = Pooled<PairList>;
inline PooledPairs take_pairs() { return take_from_pool<PairList>(); }

// Triplets of neighbors: two pairs of a neighbor list with the same center.

// Pairs of several structures that are short enough for triplets. Each two of a center are one triplet.
struct AngularPairs {
  std::vector<size_t> pairs;        // numbers in the neighbor list, ascending
  std::vector<size_t> center_ends;  // per center with neighbors: the number of angular pairs up to its end
  uint64_t n_triplets = 0;

  // Adds those of the last structure of a full neighbor list with vectors, with 0 < length <= cutoff. Throws FieldError
  // if there are more triplets than the number of atoms justifies.
  void add_structure(const PairList& list, size_t n_atoms, double cutoff);

  // Calls visit(pair, other) for each triplet: centers in order; for each, pair < other, `pair` in the outer loop.
  template <typename Visit>
  void for_each_triplet(const Visit& visit) const {
    size_t begin = 0;
    for (const size_t end : center_ends) {
      for (; begin < end; ++begin) {
        for (size_t other = begin + 1; other < end; ++other) visit(pairs[begin], pairs[other]);
      }
    }
  }
};

}  // namespace atompack::physics
