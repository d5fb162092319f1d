// Neighbor lists of a batch and their offsets in its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/checked_math.h"
#include "base/dtype.h"
#include "physics/neighbors/angular_pairs.h"
#include "physics/neighbors/pair_pool.h"
#include "plan/molecules/kept_edges.h"

namespace atompack::collate {

struct Edges {
  // One for each range of molecules between two borders.
  std::vector<physics::PooledPairs> parts;
  std::vector<int64_t> borders;
  bool has_vectors = false;
  std::vector<physics::AngularPairs> angular;  // of each range; empty unless triplets are requested
  // Offsets in the arena.
  size_t index = 0, shift = 0, vector = 0;
  DType shift_dtype = DType::float32;
  // The rows of the index are i, j, i instead of i, j: the last two are the edges with their directions reversed.
  bool has_reversed = false;
  size_t triplet_index = 0, triplet_edges = 0;
  // Instead of parts and angular: edges that were found before, and the first of each molecule in the batch.
  const KeptEdges* kept = nullptr;
  bool takes_triplets = false;
  std::vector<int64_t> kept_ptr, kept_triplet_ptr;  // (molecules + 1,)

  bool has_triplets() const { return kept != nullptr ? takes_triplets : !angular.empty(); }

  int64_t count() const {
    if (kept != nullptr) return kept_ptr.back();
    size_t sum = 0;
    for (const physics::PooledPairs& part : parts) sum += part->size();
    return static_cast<int64_t>(sum);
  }

  uint64_t count_triplets() const {
    if (kept != nullptr) return static_cast<uint64_t>(kept_triplet_ptr.back());
    uint64_t sum = 0;
    for (const physics::AngularPairs& part : angular) sum = checked_add(sum, part.n_triplets, "number of triplets");
    return sum;
  }
};

}  // namespace atompack::collate
