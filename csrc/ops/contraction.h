// Forces of a batch from stored derivatives, and the transposed operation, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace atompack::ops {

// The derivative fields of a batch, on the CPU: E edges, T triplets, all float32 or all float64. Rows refer to atoms of
// their center's molecule; rows in ascending order of centers are the fast case.
struct DerivativeTensors {
  at::Tensor radial_center, radial_neighbor;        // (E) int64
  at::Tensor radial_grads;                          // (E, n_radial, 3)
  std::optional<at::Tensor> radial_spin;            // (E); nullopt for one species
  at::Tensor angular_center, angular_j, angular_k;  // (T) int64
  at::Tensor grads_i, grads_j, grads_k;             // (T, n_angular, 3)
  std::optional<at::Tensor> angular_spin;           // (T); nullopt for one species
};

// Returns forces (N, 3) from the derivative of the energy with respect to the features, (N, F). `ptr` (B + 1): the
// first atom of each molecule. Bitwise identical for any number of threads. Throws FieldError for mismatched types or
// shapes, or if a row refers to an atom out of range.
at::Tensor contract(const at::Tensor& weights, const DerivativeTensors& rows, const at::Tensor& ptr);

// The transpose of that linear map: (N, F) from (N, 3).
at::Tensor contract_transposed(const at::Tensor& forces, const DerivativeTensors& rows, const at::Tensor& ptr);

}  // namespace atompack::ops
