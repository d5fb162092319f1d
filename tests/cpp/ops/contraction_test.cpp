#include "ops/contraction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/features.h"

namespace atompack::ops {
namespace {

constexpr int64_t kAtoms = 9, kRadial = 4, kAngular = 3;

const at::Tensor kPtr = at::tensor({0, 5, 5, 9}, at::kLong);

// Rows between atoms of the same molecule, in ascending order of centers or not.
at::Tensor atoms_of_rows(int64_t n_rows, bool sorted) {
  const at::Tensor first = at::randint(0, 5, {n_rows}, at::kLong);
  return sorted ? std::get<0>(first.sort()) : first;
}

DerivativeTensors random_rows(bool has_spins, bool sorted) {
  const at::TensorOptions real(at::kDouble);
  const int64_t n_edges = 30, n_triplets = 40;
  DerivativeTensors rows;
  rows.radial_center = atoms_of_rows(n_edges, sorted);
  rows.radial_neighbor = atoms_of_rows(n_edges, false);
  rows.radial_grads = at::randn({n_edges, kRadial, 3}, real);
  rows.angular_center = atoms_of_rows(n_triplets, sorted);
  rows.angular_j = atoms_of_rows(n_triplets, false);
  rows.angular_k = atoms_of_rows(n_triplets, false);
  rows.grads_i = at::randn({n_triplets, kAngular, 3}, real);
  rows.grads_j = at::randn({n_triplets, kAngular, 3}, real);
  rows.grads_k = at::randn({n_triplets, kAngular, 3}, real);
  if (has_spins) {
    rows.radial_spin = at::randn({n_edges}, real);
    rows.angular_spin = at::randn({n_triplets}, real);
  }
  return rows;
}

at::Tensor slow_forces(const at::Tensor& weights, const DerivativeTensors& rows) {
  at::Tensor forces = at::zeros({kAtoms, 3}, at::kDouble);
  const auto pull = [&](const at::Tensor& center, const std::optional<at::Tensor>& spin, int64_t row, int64_t first,
                        const at::Tensor& grads) {
    const at::Tensor of_center = weights[center[row].item<int64_t>()];
    at::Tensor of_row = of_center.narrow(0, first, grads.size(1));
    if (spin) of_row = of_row + (*spin)[row] * of_center.narrow(0, kRadial + kAngular + first, grads.size(1));
    return of_row.matmul(grads[row]);
  };
  const auto add = [&](const at::Tensor& atoms, int64_t row, const at::Tensor& force) {
    forces[atoms[row].item<int64_t>()] += force;
  };
  for (int64_t row = 0; row < rows.radial_center.size(0); ++row) {
    const at::Tensor force = pull(rows.radial_center, rows.radial_spin, row, 0, rows.radial_grads);
    add(rows.radial_center, row, force);
    add(rows.radial_neighbor, row, -force);
  }
  for (int64_t row = 0; row < rows.angular_center.size(0); ++row) {
    for (const auto& [atoms, grads] :
         {std::pair(rows.angular_center, rows.grads_i), std::pair(rows.angular_j, rows.grads_j),
          std::pair(rows.angular_k, rows.grads_k)}) {
      add(atoms, row, -pull(rows.angular_center, rows.angular_spin, row, kRadial, grads));
    }
  }
  return forces;
}

TEST(Contraction, EqualsASlowSumAndItsTranspose) {
  at::manual_seed(0);
  for (const bool has_spins : {false, true}) {
    for (const bool sorted : {false, true}) {
      const DerivativeTensors rows = random_rows(has_spins, sorted);
      const int64_t n_features = (kRadial + kAngular) * (has_spins ? 2 : 1);
      const at::Tensor weights = at::randn({kAtoms, n_features}, at::kDouble);
      const at::Tensor forces = contract(weights, rows, kPtr);
      EXPECT_TRUE(at::allclose(forces, slow_forces(weights, rows), 0, 1e-12)) << has_spins << sorted;
      const at::Tensor other = at::randn({kAtoms, 3}, at::kDouble);
      const double left = (forces * other).sum().item<double>();
      const double right = (weights * contract_transposed(other, rows, kPtr)).sum().item<double>();
      EXPECT_NEAR(left, right, 1e-10);
    }
  }
}

TEST(Contraction, RefusesAtomsOutOfRange) {
  DerivativeTensors rows = random_rows(false, true);
  rows.angular_k = rows.angular_k.clone();
  rows.angular_k[3] = kAtoms;
  EXPECT_THROW(contract(at::zeros({kAtoms, kRadial + kAngular}, at::kDouble), rows, kPtr), FieldError);
  EXPECT_THROW(contract(at::zeros({kAtoms, kRadial}, at::kDouble), random_rows(false, true), kPtr), FieldError);
}

// Forces from derivatives are those of finite differences of the features.
TEST(Featurizer, DerivativesAreThoseOfFiniteDifferences) {
  at::manual_seed(2);
  const Featurizer featurizer(
      {.species = {"O", "H"}, .rad_order = 3, .rad_cutoff = 3.1, .ang_order = 2, .ang_cutoff = 2.6}, {8, 1});
  const at::Tensor grid = at::stack(at::meshgrid({at::arange(2), at::arange(2), at::arange(2)}), 3).view({8, 3});
  const at::Tensor numbers = at::tensor({8, 1, 1, 8, 1, 8, 1, 1}, at::kLong);
  StructureTensors given{.positions = grid.to(at::kDouble) * 1.2 + at::rand({8, 3}, at::kDouble) * 0.3,
                         .cell = std::nullopt,
                         .periodic = std::nullopt,
                         .ptr = at::tensor({0, 5, 8}, at::kLong)};
  const Features made = featurizer.compute(given, numbers, true, DType::float64);
  const auto& d = made.derivatives;
  ASSERT_EQ(d.size(), 11U);
  const at::Tensor weights = at::randn(made.features.sizes(), at::kDouble);
  const at::Tensor forces =
      contract(weights, {d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10]}, given.ptr);
  constexpr double kStep = 1e-5;
  const at::Tensor start = given.positions;
  for (int64_t i = 0; i < start.numel(); ++i) {
    double energies[2];
    for (const int side : {0, 1}) {
      given.positions = start.clone();
      given.positions.view({-1})[i] += side == 0 ? -kStep : kStep;
      energies[side] =
          (weights * featurizer.compute(given, numbers, false, DType::float64).features).sum().item<double>();
    }
    EXPECT_NEAR(forces.view({-1})[i].item<double>(), (energies[0] - energies[1]) / (2 * kStep), 1e-5) << i;
  }
}

}  // namespace
}  // namespace atompack::ops
