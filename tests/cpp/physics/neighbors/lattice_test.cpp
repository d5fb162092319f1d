#include "physics/neighbors/lattice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "message_of.h"
#include "physics/neighbors/periodicity.h"

namespace atompack::physics {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_refused(const Matrix3& cell, const std::array<bool, 3>& periodic, std::string_view what) {
  return test::refuses<FieldError>(what, [&] { Lattice(cell, periodic); });
}

TEST(Lattice, MeasuresTheDistanceOfPlanes) {
  const Lattice skewed({{{4, 0, 0}, {3, 4, 0}, {0, 0, 5}}}, kAll);
  EXPECT_NEAR(skewed.height(0), 3.2, 1e-12);  // between planes along (3, 4, 0)
  EXPECT_NEAR(skewed.height(1), 4, 1e-12);
  EXPECT_NEAR(skewed.height(2), 5, 1e-12);
  EXPECT_NEAR(dot(skewed.normal(0), {3, 4, 0}), 0, 1e-12);
  const Lattice left({{{0, 4, 0}, {5, 0, 0}, {0, 0, 6}}}, kAll);
  for (size_t direction = 0; direction < 3; ++direction) {
    EXPECT_NEAR(left.height(direction), 4.0 + static_cast<double>(direction), 1e-12);
  }
}

TEST(Lattice, CompletesOpenDirections) {
  const Lattice wire({{{0, 0, 0}, {1, 2, 3}, {kNaN, 0, 0}}}, {false, true, false});
  EXPECT_NEAR(wire.height(1), std::sqrt(14.0), 1e-12);
  EXPECT_EQ(wire.cell()[1], (Vector3{1, 2, 3}));
  const Lattice slab({{{3, 0, 0}, {1, 3, 0}, {4, 3, 0}}}, {true, true, false});
  EXPECT_NEAR(std::abs(slab.cell()[2][2]), 1, 1e-12);
  EXPECT_NEAR(slab.height(1), 3, 1e-12);
}

TEST(Lattice, TakesAnyCellOfAnOpenStructure) { EXPECT_TRUE(Lattice({{{kNaN, 0, 0}, {}, {}}}, {}).is_open()); }

TEST(Lattice, RefusesSingularCells) {
  EXPECT_TRUE(is_refused({}, kAll, "singular"));
  EXPECT_TRUE(is_refused({{{1, 0, 0}, {2, 0, 0}, {0, 0, 1}}}, kAll, "singular"));
  EXPECT_TRUE(is_refused({{{1, 0, 0}, {2, 0, 0}, {0, 0, 1}}}, {true, true, false}, "singular"));
  EXPECT_TRUE(is_refused({{{0, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, {true, false, false}, "singular"));
}

TEST(Lattice, RefusesWhatIsNotFinite) {
  EXPECT_TRUE(is_refused({{{1, 0, 0}, {0, kNaN, 0}, {0, 0, 1}}}, kAll, "cell: expected finite numbers, got nan"));
}

TEST(Lattice, ExtentsLieAlongNormals) {
  const std::vector<double> positions{1, 2, 3, -1, 5, 4};
  const Extents open = extents_of(positions, Lattice({}, {}));
  EXPECT_EQ(open[0].first, -1);
  EXPECT_EQ(open[0].last, 1);
  EXPECT_EQ(open[1].length(), 3);
  const Extents skewed = extents_of(positions, Lattice({{{4, 0, 0}, {3, 4, 0}, {0, 0, 5}}}, kAll));
  EXPECT_NEAR(skewed[0].first, 0.8 * -1 - 0.6 * 5, 1e-12);
  EXPECT_NEAR(skewed[1].last, 5, 1e-12);
}

TEST(Lattice, DirectionsWithoutNearImagesAreOpen) {
  const std::vector<double> positions{0, 0, 0, 2, 2, 2};
  const Lattice lattice({{{4.9, 0, 0}, {0, 5.1, 0}, {0, 0, 1e30}}}, kAll);
  const Lattice near = without_far_images(lattice, extents_of(positions, lattice), 3);
  EXPECT_EQ(near.periodic(), (std::array{true, false, false}));
  EXPECT_EQ(near.cell()[0], (Vector3{4.9, 0, 0}));
}

}  // namespace
}  // namespace atompack::physics
