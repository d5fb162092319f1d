// Descriptor features of an existing batch, and their derivatives, on torch's threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/structures.h"
#include "physics/chebyshev/chebyshev.h"

namespace atompack::ops {

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

  // `atomic_numbers`: (N) int64. `dtype`: float32 or float64; results are rounded to it once. Bitwise identical for any
  // number of threads. Throws FieldError with the molecule's position in the batch for atoms of unknown species and
  // errors of the neighbor search.
  Features compute(const StructureTensors& structures, const at::Tensor& atomic_numbers, bool derivatives,
                   DType dtype) const;

 private:
  std::vector<int32_t> species_of(std::span<const int64_t> numbers, std::span<const int64_t> ptr) const;

  physics::Chebyshev descriptor_;
  std::vector<int64_t> atomic_numbers_;
};

}  // namespace atompack::ops
