// Neighbor lists of a batch and their offsets in its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "physics/neighbors/pair_pool.h"

namespace atompack::collate {

struct Edges {
  // One for each range of molecules between two borders.
  std::vector<physics::PooledPairs> parts;
  std::vector<int64_t> borders;
  bool has_vectors = false;
  size_t index = 0, shift = 0, vector = 0;  // offsets in the arena

  int64_t count() const {
    size_t sum = 0;
    for (const physics::PooledPairs& part : parts) sum += part->size();
    return static_cast<int64_t>(sum);
  }
};

}  // namespace atompack::collate
