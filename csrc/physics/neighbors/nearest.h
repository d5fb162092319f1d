// Limit on the number of neighbors of an atom.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

struct NearestOptions {
  size_t max_neighbors;  // at least 1
  // Neighbors of an atom with more than that are kept up to this much beyond the first surplus one, in squared
  // distance, so that neighbors at nearly the same distance stay together. nullopt: exactly `max_neighbors` are kept,
  // of those at the same distance the first in the list.
  std::optional<double> tolerance = std::nullopt;
};

// Keeps its memory between structures. For one thread.
class NearestNeighbors {
 public:
  explicit NearestNeighbors(const NearestOptions& options) : options_(options) {}

  // Removes those pairs of the last structure that are not among the nearest ones of their atom i; the others stay in
  // order. The list is a full one without self-interaction; `positions` and `cell` are those that it was made with.
  void keep(std::span<const double> positions, const Matrix3& cell, PairList& pairs);

 private:
  void measure(std::span<const double> positions, const Matrix3& cell, const PairList& pairs, size_t first,
               size_t last);
  size_t keep_of_atom(size_t first, size_t last, size_t end, PairList& pairs);

  NearestOptions options_;
  std::vector<double> squares_, sorted_;  // of one atom
};

}  // namespace atompack::physics
