#include "descriptor/boxes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "descriptor/neighbors.h"

namespace atompack::descriptor {
namespace {

constexpr std::array kAll{true, true, true};
constexpr std::array kNone{false, false, false};

TEST(Boxes, ExtentsLieAlongNormals) {
  const std::vector<double> positions{1, 2, 3, -1, 5, 4};
  const Extents open = extents_of(positions, Lattice({}, kNone));
  EXPECT_EQ(open[0].first, -1);
  EXPECT_EQ(open[0].last, 1);
  EXPECT_EQ(open[1].length(), 3);
  const Extents skewed = extents_of(positions, Lattice({{{4, 0, 0}, {3, 4, 0}, {0, 0, 5}}}, kAll));
  EXPECT_NEAR(skewed[0].first, 0.8 * -1 - 0.6 * 5, 1e-12);
  EXPECT_NEAR(skewed[1].last, 5, 1e-12);
}

TEST(Boxes, DirectionsWithoutNearImagesAreOpen) {
  const std::vector<double> positions{0, 0, 0, 2, 2, 2};
  const Lattice lattice({{{4.9, 0, 0}, {0, 5.1, 0}, {0, 0, 1e30}}}, kAll);
  const Lattice near = without_far_images(lattice, extents_of(positions, lattice), 3);
  EXPECT_EQ(near.periodic(), (std::array{true, false, false}));
  EXPECT_EQ(near.cell()[0], (Vector3{4.9, 0, 0}));
}

TEST(Boxes, TheCutoffIsWidenedForSparseStructuresAlone) {
  const auto widened = [](double x, double y, double z) {
    const Lattice open({}, kNone);
    const std::vector<double> positions{0, 0, 0, x, y, z};
    return workable_cutoff(positions, open, extents_of(positions, open), 1);
  };
  EXPECT_EQ(widened(5, 5, 5), 1);
  EXPECT_EQ(widened(1, 1, 50), 1);
  EXPECT_GT(widened(1, 1, 1e6), 1);
  EXPECT_GT(widened(1e4, 1e4, 1), 1);
}

// Too low a bound would let the search run away; one far too high would refuse sound structures.
TEST(Boxes, CandidatesAreBounded) {
  for (const auto& periodic : {kNone, kAll, std::array{true, false, true}}) {
    const Lattice lattice({{{60, 0, 0}, {5, 60, 0}, {0, -3, 60}}}, periodic);
    std::mt19937 random;
    std::uniform_real_distribution<double> uniform(0, 60);
    std::vector<double> positions(60000);
    for (double& x : positions) x = uniform(random);
    PairList pairs;
    NeighborSearch({.cutoff = 5}).find(positions, lattice, pairs);
    const auto n_pairs = static_cast<double>(pairs.size());
    const double candidates = count_candidates(positions, lattice, extents_of(positions, lattice), 5);
    EXPECT_GT(candidates, n_pairs);
    EXPECT_LT(candidates, 20 * n_pairs);
  }
}

}  // namespace
}  // namespace atompack::descriptor
