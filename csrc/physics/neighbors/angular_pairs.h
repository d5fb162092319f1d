// Triplets of neighbors: two pairs of a neighbor list with the same center.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

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
