// Structures in tensors of the caller.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "physics/neighbors/lattice.h"

namespace atompack::ops {

// B structures with N atoms: tensors on the CPU.
struct StructureTensors {
  at::Tensor positions;                // (N, 3) float32 or float64
  std::optional<at::Tensor> cell;      // (B, 3, 3) float32 or float64; nullopt: all are open
  std::optional<at::Tensor> periodic;  // (B, 3) bool; nullopt: periodic where there is a cell
  at::Tensor ptr;                      // (B + 1) int64, the first atom of each
};

// The same with all numbers in float64. Throws FieldError for mismatched types or shapes.
class Structures64 {
 public:
  explicit Structures64(const StructureTensors& given);

  std::span<const int64_t> ptr() const;
  size_t size() const { return ptr().size() - 1; }
  int64_t n_atoms(size_t structure) const { return ptr()[structure + 1] - ptr()[structure]; }
  std::span<const double> positions(size_t structure) const;
  physics::Lattice lattice(size_t structure) const;

 private:
  at::Tensor positions_, cell_, periodic_, ptr_;
};

}  // namespace atompack::ops
