// Descriptor features of an existing batch, and their derivatives, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "base/dtype.h"
#include "physics/chebyshev/chebyshev.h"

namespace atompack::ops {

// Inputs of the features: contiguous CPU tensors of B molecules and N atoms.
struct Structures {
  at::Tensor positions;            // (N, 3) float64
  at::Tensor atomic_numbers;       // (N) int64
  at::Tensor ptr;                  // (B + 1) int64
  std::optional<at::Tensor> cell;  // (B, 3, 3) float64; nullopt: all molecules are open
  at::Tensor periodic;             // (B, 3) bool; all false for a molecule without a cell
};

struct Features {
  at::Tensor features;  // (N, F)
  // Radial center, neighbor, gradients, spins; angular center, j, k, gradients of i, j, k, spins. Atoms are numbered
  // within the batch. With one species there are no spins: nine tensors. Empty unless requested.
  std::vector<at::Tensor> derivatives;
};

// Thread-safe.
class Featurizer {
 public:
  // `atomic_numbers`: one per species. Throws FieldError for invalid options.
  Featurizer(physics::ChebyshevOptions options, std::vector<int64_t> atomic_numbers);

  const physics::Chebyshev& descriptor() const { return descriptor_; }

  // `dtype`: float32 or float64; results are rounded to it once. Bitwise identical for any number of threads. Throws
  // FieldError with the molecule's position in the batch for atoms of unknown species and errors of the neighbor
  // search.
  Features compute(const Structures& structures, bool derivatives, DType dtype) const;

 private:
  std::vector<int32_t> species_of(const Structures& structures) const;

  physics::Chebyshev descriptor_;
  std::vector<int64_t> atomic_numbers_;
};

}  // namespace atompack::ops
