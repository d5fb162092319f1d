#include "physics/chebyshev/chebyshev.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace atompack::physics {
namespace {

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

}  // namespace
}  // namespace atompack::physics
