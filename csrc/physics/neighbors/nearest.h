// Limit on the number of neighbors of an atom.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

// Keeps its memory between structures. For one thread.
class NearestNeighbors {
 public:
  // At least 1.
  explicit NearestNeighbors(size_t max_neighbors) : max_neighbors_(max_neighbors) {}

  // Removes those pairs of the last structure that are not among the nearest ones of their atom i; the others stay in
  // order. Of neighbors at the same distance, the first in the list count as nearest. The list is a full one without
  // self-interaction; `positions` and `cell` are those that it was made with.
  void keep(std::span<const double> positions, const Matrix3& cell, PairList& pairs);

 private:
  void measure(std::span<const double> positions, const Matrix3& cell, const PairList& pairs, size_t first,
               size_t last);
  size_t keep_of_atom(size_t first, size_t last, size_t end, PairList& pairs);

  size_t max_neighbors_;
  std::vector<double> squares_, sorted_;  // of one atom
};

}  // namespace atompack::physics
