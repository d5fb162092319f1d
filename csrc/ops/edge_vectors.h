// Vectors along given edges, linear in positions and cells, and the transposed map, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace atompack::ops {

// Edges of B molecules with N atoms, as a neighbor search returns them: the first row of `index` ascends, and both
// atoms of an edge belong to the same molecule.
struct EdgeTensors {
  at::Tensor ptr;    // (B + 1) int64, the first atom of each molecule
  at::Tensor index;  // (2, E) int64
  at::Tensor shift;  // (E, 3) float32 or float64
};

// Returns r_j - r_i + S cell, (E, 3), from positions (N, 3) and cells (B, 3, 3), which have the type of the shifts;
// without cells the shifts do not count. Both functions return the same bits on any number of threads, and throw
// FieldError for mismatched types or shapes, or edges that are not as above.
at::Tensor edge_vectors(const at::Tensor& positions, const std::optional<at::Tensor>& cell, const EdgeTensors& edges);

// The transpose of that linear map: (N, 3) and (B, 3, 3), the latter empty without cells, from (E, 3). Sums are made in
// float64.
std::pair<at::Tensor, at::Tensor> edge_vectors_transposed(const at::Tensor& vectors, const EdgeTensors& edges,
                                                          int64_t n_atoms, bool has_cell);

}  // namespace atompack::ops
