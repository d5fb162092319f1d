// Neighbor pairs of structures in tensors, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/structures.h"
#include "physics/neighbors/neighbors.h"

namespace atompack::ops {

struct PairTensors {
  at::Tensor index;   // (2, E) int64, ascending first row
  at::Tensor shift;   // (E, 3) of the type of the positions, integers
  at::Tensor vector;  // (E, 3) of the type of the positions, r_j - r_i + S cell; undefined unless requested
};

// Finds all pairs. Bitwise identical for any number of threads, which work inside large structures too. Throws
// FieldError for mismatched types or shapes, and for errors of the search with the number of the structure.
PairTensors find_neighbors(const StructureTensors& structures, const physics::NeighborOptions& options);

}  // namespace atompack::ops
