#include "physics/chebyshev/chebyshev.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace atompack::physics {
namespace {

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
