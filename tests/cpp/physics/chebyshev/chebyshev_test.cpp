#include "physics/chebyshev/chebyshev.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "message_of.h"
#include "physics/neighbors/periodicity.h"

namespace atompack::physics {
namespace {

const Lattice kOpen(Matrix3{}, kNone);

// The features of all atoms and the rows of their derivatives, for up to two species.
struct Found {
  Neighborhoods near;
  std::vector<double> features, radial_grads, radial_spin, grads_i, grads_j, grads_k, angular_spin;
  std::vector<int64_t> radial_center, radial_neighbor, angular_center, angular_j, angular_k;
  DerivativeRows<double> rows;

  Found(const Chebyshev& descriptor, std::span<const double> positions, const Lattice& lattice = kOpen) {
    descriptor.search().find(positions, lattice, near);
    features.resize(positions.size() / 3 * descriptor.n_features());
    for (auto* atoms : {&radial_center, &radial_neighbor}) atoms->resize(near.n_edges());
    for (auto* atoms : {&angular_center, &angular_j, &angular_k}) atoms->resize(near.n_triplets());
    for (auto* grads : {&grads_i, &grads_j, &grads_k}) grads->resize(near.n_triplets() * descriptor.n_angular() * 3);
    radial_grads.resize(near.n_edges() * descriptor.n_radial() * 3);
    radial_spin.resize(near.n_edges());
    angular_spin.resize(near.n_triplets());
    rows = {radial_center.data(),  radial_neighbor.data(), radial_grads.data(), radial_spin.data(),
            angular_center.data(), angular_j.data(),       angular_k.data(),    grads_i.data(),
            grads_j.data(),        grads_k.data(),         angular_spin.data()};
  }
};

Found compute(const Chebyshev& descriptor, std::span<const double> positions, std::span<const int32_t> species,
              const Lattice& lattice = kOpen) {
  Found found(descriptor, positions, lattice);
  ChebyshevScratch scratch = descriptor.scratch();
  descriptor.compute(found.near, CenterTask<double>{0, species.size(), species, 0, found.features.data(), &found.rows},
                     scratch);
  return found;
}

TEST(Chebyshev, NumbersSpeciesAroundZero) {
  const auto spins = [](std::vector<std::string> species) {
    return Chebyshev({std::move(species), 0, 1, 0, 1}).typespin();
  };
  EXPECT_EQ(spins({"a"}), std::vector<double>{0});
  EXPECT_EQ(spins({"a", "b"}), (std::vector<double>{-1, 1}));
  EXPECT_EQ(spins({"a", "b", "c"}), (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(spins({"a", "b", "c", "d"}), (std::vector<double>{-2, -1, 1, 2}));
  EXPECT_EQ(spins({"a", "b", "c", "d", "e"}), (std::vector<double>{-2, -1, 0, 1, 2}));
}

TEST(Chebyshev, CountsTheImagesOfALoneAtom) {
  const Lattice cell({{{2.3, 0, 0}, {0, 2.3, 0}, {0, 0, 2.3}}}, kAll);
  const Chebyshev descriptor({{"a"}, 0, 2.5, 0, 2.5});
  const Found found = compute(descriptor, std::vector<double>{0.1, 7.0, -3.0}, std::vector<int32_t>{0}, cell);
  const double damping = (std::cos(std::acos(-1.0) * 2.3 / 2.5) + 1) / 2;
  EXPECT_EQ(found.near.n_edges(), 6u);
  EXPECT_EQ(found.near.n_triplets(), 15u);
  EXPECT_NEAR(found.features[0], 6 * damping, 1e-12);
  EXPECT_NEAR(found.features[1], 15 * damping * damping, 1e-12);
  EXPECT_EQ(found.radial_neighbor, std::vector<int64_t>(6, 0));
}

TEST(Chebyshev, AnIsolatedAtomIsZero) {
  const Found found =
      compute(Chebyshev({{"a", "b"}, 2, 4, 1, 4}), std::vector<double>{1, 2, 3}, std::vector<int32_t>{1});
  EXPECT_EQ(found.features, std::vector<double>(10, 0.0));
  EXPECT_EQ(found.near.n_edges(), 0u);
}

TEST(Chebyshev, RangesOfCentersGiveWhatTheWholeGives) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 6);
  std::vector<double> positions(60);
  for (double& x : positions) x = uniform(random);
  std::vector<int32_t> species(20);
  for (size_t i = 0; i < species.size(); ++i) species[i] = static_cast<int32_t>(i % 2);
  const Chebyshev descriptor({{"a", "b"}, 5, 4.5, 4, 5.5});  // more triplets an atom than a block takes
  const Found whole = compute(descriptor, positions, species);
  ASSERT_GT(whole.near.n_triplets(), 20 * ChebyshevBlock::kColumns);

  Found parts(descriptor, positions);
  for (const auto& [first, last] : {std::pair<size_t, size_t>{11, 20}, {0, 1}, {1, 11}}) {
    ChebyshevScratch scratch = descriptor.scratch();
    descriptor.compute(parts.near, CenterTask<double>{first, last, species, 0, parts.features.data(), &parts.rows},
                       scratch);
  }
  EXPECT_EQ(parts.features, whole.features);
  EXPECT_EQ(parts.grads_i, whole.grads_i);
  EXPECT_EQ(parts.radial_grads, whole.radial_grads);
  EXPECT_EQ(parts.angular_k, whole.angular_k);

  std::vector<float> rounded(whole.features.size());
  ChebyshevScratch scratch = descriptor.scratch();
  descriptor.compute(whole.near, CenterTask<float>{0, 20, species, 0, rounded.data(), nullptr}, scratch);
  for (size_t f = 0; f < rounded.size(); ++f) EXPECT_EQ(rounded[f], static_cast<float>(whole.features[f]));
}

std::string refusal(const ChebyshevOptions& options) {
  return test::message_of<FieldError>([&] { Chebyshev{options}; });
}

TEST(Chebyshev, RefusesWhatMakesNoSense) {
  EXPECT_EQ(refusal({{}, 1, 1, 1, 1}), "species: expected at least one label, got none");
  EXPECT_EQ(refusal({{"H", "H"}, 1, 1, 1, 1}), "species: expected unique labels, got 1 among 2");
  EXPECT_EQ(refusal({{"H"}, -1, 1, 1, 1}), "rad_order: expected 0 to 1000, got -1");
  EXPECT_EQ(refusal({{"H"}, 1, 1, 1 << 30, 1}), "ang_order: expected 0 to 1000, got 1.07374e+09");
  EXPECT_EQ(refusal({{"H"}, 1, 0, 1, 1}), "rad_cutoff: expected a finite number, at least 0.001, got 0");
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal({{"H"}, 1, 1, 1, kNaN}), "ang_cutoff: expected a finite number, at least 0.001, got nan");
  EXPECT_EQ(refusal({{"H"}, 1, 1, 1, 1, -1}), "min_cutoff: expected a finite number, at least 0, got -1");
}

TEST(ChebyshevBlock, IsTheCosineOfAMultiple) {
  constexpr size_t kOrder = 12;
  ChebyshevBlock block(kOrder);
  constexpr size_t kColumns = 13;  // no whole number of lanes
  for (size_t t = 0; t < kColumns; ++t) block.x[t] = std::cos(0.1 + 0.22 * static_cast<double>(t));
  block.evaluate(kColumns);
  block.differentiate();
  for (size_t t = 0; t < kColumns; ++t) {
    const double angle = 0.1 + 0.22 * static_cast<double>(t);
    for (size_t n = 0; n <= kOrder; ++n) {
      const auto multiple = static_cast<double>(n);
      EXPECT_NEAR(block.values(n)[t], std::cos(multiple * angle), 1e-13);
      EXPECT_NEAR(block.slopes(n)[t], multiple * std::sin(multiple * angle) / std::sin(angle), 1e-11);
    }
  }
}

TEST(ChebyshevBlock, TakesOrdersZeroAndOne) {
  for (const size_t order : {0, 1}) {
    ChebyshevBlock block(order);
    block.x[0] = 0.3;
    block.evaluate(1);
    block.differentiate();
    EXPECT_EQ(block.values(0)[0], 1);
    EXPECT_EQ(block.slopes(0)[0], 0);
    if (order == 0) continue;
    EXPECT_EQ(block.values(1)[0], 0.3);
    EXPECT_EQ(block.slopes(1)[0], 1);
  }
}

TEST(ChebyshevBlock, DampsDerivativesNearStraightAngles) {
  constexpr double kAngle = 1e-6;  // its sine is a tenth of the floor
  ChebyshevBlock block(3);
  block.x = {1, -1, std::cos(kAngle), std::cos(1e-3)};
  block.evaluate(4);
  block.differentiate();
  EXPECT_EQ(block.slopes(3)[0], 0);
  EXPECT_EQ(block.slopes(3)[1], 0);
  EXPECT_NEAR(block.slopes(2)[2], 4 * 0.1, 1e-4);  // the cosine keeps four digits of so small an angle
  EXPECT_NEAR(block.slopes(2)[3], 4 * std::cos(1e-3), 1e-12);
}

TEST(ChebyshevBlock, SumsWithBothWeights) {
  ChebyshevBlock block(2);
  block.x[1] = 7;  // what an earlier, wider block has left
  block.weight[1] = 7;
  block.x[0] = 0.5;
  block.weight[0] = 2;
  block.spin_weight[0] = -3;
  block.evaluate(1);
  std::vector<double> sum{1, 1, 1}, spin_sum{0, 0, 0};
  block.add_sums(sum.data());
  block.add_spin_sums(spin_sum.data());
  EXPECT_EQ(sum, (std::vector<double>{3, 2, 0}));
  EXPECT_EQ(spin_sum, (std::vector<double>{-3, -1.5, 1.5}));
}

}  // namespace
}  // namespace atompack::physics
