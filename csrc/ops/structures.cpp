#include "ops/structures.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "collate/tensor_checks.h"

namespace atompack::ops {
namespace {

bool is_real(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

}  // namespace

Structures64::Structures64(const StructureTensors& given) : ptr_(given.ptr) {
  const auto type = given.positions.scalar_type();
  if (!is_real(given.positions)) {
    throw FieldError(cat("positions: expected Float or Double, got ", c10::toString(type))).at_field("positions");
  }
  if (given.positions.dim() != 2 || given.positions.size(1) != 3) {
    throw FieldError(cat("positions: expected shape (atoms, 3), got ", given.positions.sizes())).at_field("positions");
  }
  const int64_t n_atoms = given.positions.size(0);
  collate::expect_tensor(given.positions, "positions", type, {n_atoms, 3});
  collate::expect_ptr(given.ptr, n_atoms);
  const int64_t n = given.ptr.numel() - 1;
  positions_ = collate::in_plain_memory(given.positions).to(at::kDouble);
  if (given.cell) {
    collate::expect_tensor(*given.cell, "cell", is_real(*given.cell) ? given.cell->scalar_type() : type, {n, 3, 3});
    cell_ = collate::in_plain_memory(*given.cell).to(at::kDouble);
  }
  if (given.periodic) {
    if (!given.cell) throw FieldError("pbc: expected a cell too").at_field("pbc");
    collate::expect_tensor(*given.periodic, "pbc", at::kBool, {n, 3});
    periodic_ = collate::in_plain_memory(*given.periodic);
  }
}

std::span<const int64_t> Structures64::ptr() const { return collate::items_of<int64_t>(ptr_); }

std::span<const double> Structures64::positions(size_t structure) const {
  return collate::items_of<double>(positions_)
      .subspan(3 * static_cast<size_t>(ptr()[structure]), 3 * static_cast<size_t>(n_atoms(structure)));
}

physics::Lattice Structures64::lattice(size_t structure) const {
  physics::Matrix3 cell{};
  std::array<bool, 3> periodic{};
  if (cell_.defined()) {
    const double* from = cell_.const_data_ptr<double>() + 9 * structure;
    for (auto& row : cell) {
      for (double& x : row) x = *from++;
    }
    periodic.fill(true);
  }
  if (periodic_.defined()) std::copy_n(periodic_.const_data_ptr<bool>() + 3 * structure, 3, periodic.begin());
  return {cell, periodic};
}

}  // namespace atompack::ops
