// Forces of a batch from stored derivatives, and the way back, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace atompack::collate {

// The derivative fields of a batch, on the CPU: E edges, T triplets, float32 or float64, all the same. The rows of a
// center's molecule name atoms of that molecule; rows in the order of their centers are the fast case.
struct DerivativeTensors {
  at::Tensor radial_center, radial_neighbor;        // (E) int64
  at::Tensor radial_grads;                          // (E, n_radial, 3)
  std::optional<at::Tensor> radial_spin;            // (E); none for one species
  at::Tensor angular_center, angular_j, angular_k;  // (T) int64
  at::Tensor grads_i, grads_j, grads_k;             // (T, n_angular, 3)
  std::optional<at::Tensor> angular_spin;           // (T); none for one species
};

// (N, 3) from the derivative of the energy with respect to the features, (N, F). `ptr` (B + 1): the first atom of each
// molecule. The same to the bit on any number of threads. Throws FieldError where types or shapes do not fit, or a row
// names an atom that is not there.
at::Tensor contract(const at::Tensor& weights, const DerivativeTensors& rows, const at::Tensor& ptr);

// The transpose of that linear map: (N, F) from (N, 3).
at::Tensor contract_transposed(const at::Tensor& forces, const DerivativeTensors& rows, const at::Tensor& ptr);

}  // namespace atompack::collate
