// Neighbor lists of a batch and their offsets in its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/checked_math.h"
#include "physics/neighbors/angular_pairs.h"
#include "physics/neighbors/pair_pool.h"

namespace atompack::collate {

struct Edges {
  // One for each range of molecules between two borders.
  std::vector<physics::PooledPairs> parts;
  std::vector<int64_t> borders;
  bool has_vectors = false;
  std::vector<physics::AngularPairs> angular;  // of each range; empty unless triplets are requested
  // Offsets in the arena.
  size_t index = 0, shift = 0, vector = 0;
  size_t triplet_index = 0, triplet_edges = 0;

  bool has_triplets() const { return !angular.empty(); }

  int64_t count() const {
    size_t sum = 0;
    for (const physics::PooledPairs& part : parts) sum += part->size();
    return static_cast<int64_t>(sum);
  }

  uint64_t count_triplets() const {
    uint64_t sum = 0;
    for (const physics::AngularPairs& part : angular) sum = checked_add(sum, part.n_triplets, "number of triplets");
    return sum;
  }
};

}  // namespace atompack::collate
