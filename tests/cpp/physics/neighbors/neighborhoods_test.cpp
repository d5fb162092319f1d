#include "physics/neighbors/neighborhoods.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "message_of.h"
#include "physics/neighbors/periodicity.h"

namespace atompack::physics {
namespace {

constexpr Matrix3 kCube{{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}};

Neighborhoods found(const NeighborhoodOptions& options, std::span<const double> positions, const Lattice& lattice) {
  Neighborhoods near;
  NeighborhoodSearch(options).find(positions, lattice, near);
  return near;
}

TEST(Neighborhoods, ExcludesTheLeastDistanceAndIncludesTheLargest) {
  const std::vector<double> row{0, 0, 0, 0.5, 0, 0, 2.5, 0, 0};  // distances 0.5, 2, 2.5
  const Lattice open(Matrix3{}, kNone);
  EXPECT_EQ(found({0.5, 2.5, 2.5}, row, open).edge_ends, (std::vector<size_t>{0, 1, 2, 4}));
  EXPECT_EQ(found({0.4, 2.5, 2.5}, row, open).edge_ends, (std::vector<size_t>{0, 2, 4, 6}));
  EXPECT_EQ(found({0.4, std::nextafter(2.5, 0), 2}, row, open).edge_ends, (std::vector<size_t>{0, 1, 3, 4}));
}

TEST(Neighborhoods, CountsTripletsWithinTheAngularCutoff) {
  const std::vector<double> row{0, 0, 0, 1, 0, 0, 2.5, 0, 0};
  const Lattice open(Matrix3{}, kNone);
  EXPECT_EQ(found({0.5, 3, 3}, row, open).triplet_ends, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ(found({0.5, 3, 1.5}, row, open).triplet_ends, (std::vector<size_t>{0, 0, 1, 1}));
  EXPECT_EQ(found({0.5, 3, 0.6}, row, open).n_triplets(), 0u);
}

TEST(Neighborhoods, NumbersAtomsOfManyStructuresOn) {
  const std::vector<double> pair{0, 0, 0, 1, 0, 0};
  Neighborhoods near;
  NeighborhoodSearch search({0.5, 2, 2});
  search.find(pair, Lattice(Matrix3{}, kNone), near);
  search.find({}, Lattice(Matrix3{}, kNone), near);
  search.find(pair, Lattice(Matrix3{}, kNone), near);
  EXPECT_EQ(near.neighbors, (std::vector<uint32_t>{1, 0, 3, 2}));
  EXPECT_EQ(near.n_centers(), 4u);
  near.clear();
  EXPECT_EQ(near.n_edges(), 0u);
}

// A neighbor's images by their cells, whichever cell the atoms themselves are given in.
TEST(Neighborhoods, OrdersImagesByTheirCells) {
  const std::vector<double> inside{0.2, 0.1, 0.3, 1.7, 1.4, 1.6};
  std::vector<double> outside = inside;
  outside[3] += 6;
  outside[1] -= 9;
  const Lattice lattice(kCube, kAll);
  const Neighborhoods near = found({0.5, 6, 6}, inside, lattice), moved = found({0.5, 6, 6}, outside, lattice);
  ASSERT_GT(near.n_edges(), 100u);
  EXPECT_EQ(near.neighbors, moved.neighbors);
  for (size_t edge = 0; edge < near.n_edges(); ++edge) {
    EXPECT_NEAR(near.distances[edge], moved.distances[edge], 1e-12);
    for (size_t axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(near.directions[edge][axis], moved.directions[edge][axis], 1e-12);
    }
  }
  for (size_t edge = 1; edge < near.edge_ends[1]; ++edge) {
    const auto place = [&](size_t e) {
      Vector3 end = near.directions[e];
      for (double& x : end) x = std::round(x * near.distances[e] * 1e6);
      return std::tuple(near.neighbors[e], end);
    };
    EXPECT_LT(place(edge - 1), place(edge));
  }
}

TEST(Neighborhoods, RefusesMoreTripletsThanMatterHas) {
  const std::vector<double> atom{0, 0, 0};
  const Lattice speck({{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, kAll);
  EXPECT_EQ(found({0.5, 11, 9}, atom, speck).n_edges(), 5574u);
  EXPECT_EQ(test::message_of<FieldError>([&] { found({0.5, 11, 11}, atom, speck); }),
            "neighbors: expected at most 4096 neighbors within ang_cutoff of an atom, got 5574 for atom 0 (field "
            "'positions')");
}

}  // namespace
}  // namespace atompack::physics
