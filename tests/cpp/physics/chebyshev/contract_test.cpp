#include "physics/chebyshev/contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "physics/chebyshev/chebyshev.h"

namespace atompack::physics {
namespace {

struct Water {
  explicit Water(std::vector<std::string> species = {"O", "H"}) : descriptor({std::move(species), 2, 4.0, 1, 1.5}) {
    const std::vector<double> positions{0, 0, 0.11779, 0, 0.75545, -0.47116, 0, -0.75545, -0.47116};
    const std::vector<int32_t> numbers =
        descriptor.multi() ? std::vector<int32_t>{0, 1, 1} : std::vector<int32_t>{0, 0, 0};
    std::vector<double> features;
    ChebyshevWorkspace(descriptor).compute(positions, numbers, Lattice({}, {}), features, &rows);
    weights.resize(features.size());
    const size_t width = descriptor.n_features();
    for (size_t i = 0; i < features.size(); ++i) {
      weights[i] = std::sin(0.5 + 0.37 * static_cast<double>(i / width) + 0.11 * static_cast<double>(i % width));
    }
  }

  DerivativeView<double> view() {
    const auto all = rows.rows();
    return {all.radial_center, all.radial_neighbor,   all.radial_grads,      all.radial_spin, all.angular_center,
            all.angular_j,     all.angular_k,         all.grads_i,           all.grads_j,     all.grads_k,
            all.angular_spin,  descriptor.n_radial(), descriptor.n_angular()};
  }
  RowRanges all() const { return {{0, rows.n_edges()}, {0, rows.n_triplets()}}; }

  Chebyshev descriptor;
  LocalDerivatives rows;
  std::vector<double> weights;
};

TEST(Contract, MeetsTheWorkedExample) {
  Water water;
  std::vector<double> forces(9);
  contract(water.view(), water.all(), water.weights.data(), forces.data());
  const std::vector<double> expected{0, 0.0743449036,  1.1296840538, 0, 0.7094224875, -0.5358623254,
                                     0, -0.7837673911, -0.5938217284};
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(forces[i], expected[i], 1e-10);
}

TEST(Contract, AddsRangesOfRowsUp) {
  Water water;
  std::vector<double> whole(9), parts(9);
  contract(water.view(), water.all(), water.weights.data(), whole.data());
  contract(water.view(), {{0, 2}, {0, 0}}, water.weights.data(), parts.data());
  contract(water.view(), {{2, 6}, {0, 1}}, water.weights.data(), parts.data());
  EXPECT_EQ(parts, whole);
}

// <C w, f> = <w, C^T f> for all w and f, which only the transpose fulfils.
TEST(Contract, TransposedIsTheTranspose) {
  for (const std::vector<std::string>& species : {std::vector<std::string>{"O", "H"}, {"O"}}) {
    Water water(species);
    const size_t n = water.weights.size();
    for (size_t atom = 0; atom < 9; ++atom) {
      std::vector<double> force(9), back(n);
      force[atom] = 1;
      contract_transposed(water.view(), water.all(), force.data(), back.data());
      for (size_t f = 0; f < n; ++f) {
        std::vector<double> weight(n), forces(9);
        weight[f] = 1;
        contract(water.view(), water.all(), weight.data(), forces.data());
        EXPECT_NEAR(back[f], forces[atom], 1e-15);
      }
    }
  }
}

TEST(Contract, OneSpeciesHasNoSpins) {
  Water water({"O"});
  EXPECT_EQ(water.view().n_features(), 5u);
  std::vector<double> forces(9);
  contract(water.view(), water.all(), water.weights.data(), forces.data());
  for (size_t axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(forces[axis] + forces[3 + axis] + forces[6 + axis], 0, 1e-14);
  }
  EXPECT_GT(std::abs(forces[2]), 0.1);
}

}  // namespace
}  // namespace atompack::physics
