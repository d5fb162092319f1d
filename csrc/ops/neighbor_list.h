// Neighbor pairs of structures in tensors, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "physics/neighbors/neighbors.h"

namespace atompack::ops {

// B structures with N atoms: tensors on the CPU.
struct StructureTensors {
  at::Tensor positions;                // (N, 3) float32 or float64
  std::optional<at::Tensor> cell;      // (B, 3, 3) of the same type; nullopt: all are open
  std::optional<at::Tensor> periodic;  // (B, 3) bool; nullopt: periodic where there is a cell
  at::Tensor ptr;                      // (B + 1) int64, the first atom of each
};

struct PairTensors {
  at::Tensor index;   // (2, E) int64, ascending first row
  at::Tensor shift;   // (E, 3) of the type of the positions, integers
  at::Tensor vector;  // (E, 3) of the type of the positions, r_j - r_i + S cell; undefined unless requested
};

// Finds all pairs. Bitwise identical for any number of threads, which work inside large structures too. Throws
// FieldError for mismatched types or shapes, and for errors of the search with the number of the structure.
PairTensors find_neighbors(const StructureTensors& structures, const physics::NeighborOptions& options);

}  // namespace atompack::ops
