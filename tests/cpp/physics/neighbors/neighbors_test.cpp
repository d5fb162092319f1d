#include "physics/neighbors/neighbors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "message_of.h"
#include "physics/neighbors/neighborhoods.h"
#include "physics/neighbors/periodic_images.h"

namespace atompack::physics {
namespace {

constexpr std::array kAll{true, true, true}, kNone{false, false, false};

// i, j, S
using Pair = std::tuple<uint32_t, uint32_t, int, int, int>;
using Pairs = std::multiset<Pair>;

Matrix3 cube(double length) { return {{{length, 0, 0}, {0, length, 0}, {0, 0, length}}}; }

std::vector<double> random_positions(size_t n_atoms, double extent) {
  std::mt19937 random(static_cast<unsigned>(n_atoms));
  std::uniform_real_distribution<double> uniform(0, extent);
  std::vector<double> positions(3 * n_atoms);
  for (double& x : positions) x = uniform(random);
  return positions;
}

PairList pairs_of(const NeighborOptions& options, std::span<const double> positions, const Lattice& lattice) {
  PairList pairs;
  NeighborSearch(options).find(positions, lattice, pairs);
  return pairs;
}

Pairs as_set(const PairList& pairs) {
  Pairs all;
  for (size_t k = 0; k < pairs.size(); ++k) {
    const auto& cells = pairs.shifts[k].cells;
    all.insert(
        {pairs.i[k], pairs.j[k], static_cast<int>(cells[0]), static_cast<int>(cells[1]), static_cast<int>(cells[2])});
  }
  return all;
}

// Every pair of every image within `reach` cells.
Pairs slowly(std::span<const double> positions, const Matrix3& cell, const std::array<bool, 3>& periodic, double cutoff,
             int reach) {
  Pairs all;
  std::array<int, 3> most;
  for (size_t d = 0; d < 3; ++d) most[d] = periodic[d] ? reach : 0;
  const auto n = static_cast<uint32_t>(positions.size() / 3);
  for (int a = -most[0]; a <= most[0]; ++a)
    for (int b = -most[1]; b <= most[1]; ++b)
      for (int c = -most[2]; c <= most[2]; ++c)
        for (uint32_t i = 0; i < n; ++i)
          for (uint32_t j = 0; j < n; ++j) {
            if (i == j && a == 0 && b == 0 && c == 0) continue;
            double square = 0;
            for (size_t d = 0; d < 3; ++d) {
              const double x =
                  positions[3 * j + d] - positions[3 * i + d] + a * cell[0][d] + b * cell[1][d] + c * cell[2][d];
              square += x * x;
            }
            if (square < cutoff * cutoff) all.insert({i, j, a, b, c});
          }
  return all;
}

void expect_refused(const NeighborOptions& options, std::span<const double> positions, const Lattice& lattice,
                    const std::string& what) {
  PairList pairs;
  NeighborSearch search(options);
  EXPECT_TRUE(test::refuses<FieldError>(what, [&] { search.find(positions, lattice, pairs); })) << what;
  EXPECT_TRUE(pairs.i.empty() && pairs.ends.empty());
  search.find(random_positions(2, 1), Lattice({}, kNone), pairs);  // it continues after that
  EXPECT_EQ(pairs.size(), 2U);
}

TEST(Neighbors, EqualTheSlowSearch) {
  const Matrix3 skewed{{{4, 0, 0}, {1.5, 4, 0}, {1, -1.5, 3.5}}};
  const Matrix3 left{{{0, 4, 0}, {4, 0, 0}, {0, 0, 4}}};
  for (int mask = 0; mask < 8; ++mask) {
    const std::array periodic{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
    for (const Matrix3& cell : {cube(4), cube(1.3), skewed, left}) {
      const std::vector<double> positions = random_positions(7, 5);
      const PairList pairs = pairs_of({.cutoff = 3.1}, positions, Lattice(cell, periodic));
      EXPECT_EQ(as_set(pairs), slowly(positions, cell, periodic, 3.1, 6)) << mask;
      EXPECT_TRUE(std::ranges::is_sorted(pairs.i));
    }
  }
}

TEST(Neighbors, OfSeveralStructuresFollowOneAnother) {
  PairList pairs;
  NeighborSearch search({.cutoff = 2});
  search.find(std::vector<double>{0, 0, 0, 1, 0, 0}, Lattice({}, kNone), pairs);
  search.find({}, Lattice({}, kNone), pairs);
  search.find(std::vector<double>{0, 0, 0}, Lattice(cube(1.9), kAll), pairs);
  search.find(std::vector<double>{0, 0, 0}, Lattice({}, kNone), pairs);
  EXPECT_EQ(pairs.ends, (std::vector<size_t>{2, 2, 8, 8}));
}

TEST(Neighbors, RefuseWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Lattice& lattice : {Lattice({}, kNone), Lattice(cube(4), kAll)}) {
    expect_refused({.cutoff = 3}, std::vector<double>{0, 0, 0, 0, -infinity, 0}, lattice,
                   "positions: expected finite numbers, got -inf for atom 1 (field 'positions')");
    expect_refused({.cutoff = 3}, std::vector<double>{0, std::nan(""), 0}, lattice, "for atom 0");
  }
}

TEST(Neighbors, RefusePositionsTooFarOut) {
  expect_refused({.cutoff = 3}, std::vector<double>{0, 0, 0, 1e9, 0, 0}, Lattice(cube(4), kAll),
                 "cells from the origin, got 2.5e+08");
  expect_refused({.cutoff = 3}, std::vector<double>{0, 0, 0, 1e300, 0, 0}, Lattice({}, kNone),
                 "positions: expected numbers below 1e+15, got 1e+300 for atom 1");
  EXPECT_EQ(pairs_of({.cutoff = 3}, std::vector<double>{0, 0, 0, 1e14, 0, 0}, Lattice({}, kNone)).size(), 0U);
}

TEST(Neighbors, RefuseWhatHasNoEnd) {
  expect_refused({.cutoff = 5}, std::vector<double>{0, 0, 0}, Lattice(cube(1e-3), kAll), "images for 1 atoms");
  const std::vector<double> on_one_place(3 * 20000, 1.0);
  expect_refused({.cutoff = 5}, on_one_place, Lattice({}, kNone), "for 20000 atoms");
  expect_refused({.cutoff = 5}, on_one_place, Lattice(cube(50), kAll), "for 20000 atoms");
}

TEST(Neighbors, OfLongStructuresAreFound) {
  for (const Vector3& shape : {Vector3{1, 1, 1e6}, {1e4, 1e4, 1}, {1, 1e9, 1e9}, {1e6, 1, 1}, {1, 1.3e5, 1}}) {
    std::vector<double> positions = random_positions(150, 1);
    for (size_t k = 0; k < positions.size(); ++k) positions[k] *= shape[k % 3];
    for (size_t k = 0; k < 3; ++k) positions[k + 3] = positions[k];  // two that are near each other for certain
    const Pairs pairs = as_set(pairs_of({.cutoff = 0.7}, positions, Lattice({}, kNone)));
    EXPECT_EQ(pairs, slowly(positions, {}, kNone, 0.7, 0));
    EXPECT_TRUE(pairs.contains({0, 1, 0, 0, 0}));
  }
}

// Cells so large that no image is near.
TEST(Neighbors, OfHugeCellsAreThoseOfOpenOnes) {
  const std::vector<double> positions = random_positions(150, 9);
  const Pairs expected = as_set(pairs_of({.cutoff = 2}, positions, Lattice({}, kNone)));
  for (const double length : {11.1, 1e6, 1e19, 1e49}) {
    const Lattice lattice({{{length, 0, 0}, {0, length, 0}, {0, 0.1 * length, length}}}, kAll);
    EXPECT_EQ(as_set(pairs_of({.cutoff = 2}, positions, lattice)), expected) << length;
  }
}

// Of an atom at 0 with neighbors on a line, at these distances from it.
std::vector<uint32_t> neighbors_of_first(size_t max_neighbors, std::span<const double> distances) {
  std::vector<double> positions{0, 0, 0};
  for (const double distance : distances) positions.insert(positions.end(), {distance, 0, 0});
  PairList pairs = pairs_of({.cutoff = 4, .vectors = false}, positions, Lattice({}, kNone));
  NearestNeighbors(max_neighbors).keep(positions, {}, pairs);
  std::vector<uint32_t> neighbors;
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    if (pairs.i[pair] == 0) neighbors.push_back(pairs.j[pair]);
  }
  std::ranges::sort(neighbors);
  return neighbors;
}

TEST(Nearest, AtOneDistanceAreTheFirstInTheList) {
  EXPECT_EQ(neighbors_of_first(2, std::vector<double>{1, 2, -2, 3}), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(neighbors_of_first(1, std::vector<double>{2, -2, 3}).size(), 1U);
}

Images gathered(std::span<const double> positions, const Lattice& lattice, double cutoff) {
  Images images;
  images.gather(positions, lattice, cutoff);
  return images;
}

// What is compared roughly must not lose what is near, nor be sure of what is too far.
TEST(Images, TheLimitsCoverTheRounding) {
  const std::vector<double> positions{1e6, 1e6, 1e6, 1e6 + 0.6, 1e6 + 0.8, 1e6, 0, 0, 0};
  const Images images = gathered(positions, Lattice({}, {}), 1.0000001);
  const auto a = images.point(0), b = images.point(1);
  const float square = std::pow(b[0] - a[0], 2.0F) + std::pow(b[1] - a[1], 2.0F) + std::pow(b[2] - a[2], 2.0F);
  EXPECT_LE(square, images.square_limits().possible);
  EXPECT_GT(square, images.square_limits().sure);
  EXPECT_GT(images.square_limits().possible, 1);
  const auto [sure, possible] = gathered(std::vector<double>{0, 0, 0, 9, 9, 9}, Lattice({}, {}), 1).square_limits();
  EXPECT_TRUE(0.99998F < sure && sure < 1 && 1 < possible && possible < 1.00002F);
  const std::vector<double> far{1e8, 0, 0, 0, 0, 0};
  EXPECT_LT(gathered(far, Lattice({}, {}), 1).square_limits().sure, 0) << "floats are 8 apart there";
}

// Not many more than there are neighbors: else the search would be slow and refuse sound structures.
TEST(Images, CandidatesAreFew) {
  std::mt19937 random;
  std::uniform_real_distribution<double> uniform(0, 60);
  std::vector<double> positions(6000);
  for (double& x : positions) x = uniform(random);
  const Images images = gathered(positions, Lattice(cube(60), kAll), 5);
  double n = 0;
  for (size_t atom = 0; atom < 2000; ++atom) {
    images.visit_near(atom, [&](const Range& range) { n += static_cast<double>(range.size()); });
  }
  const double density = 2000.0 / (60 * 60 * 60), sphere = 4.0 / 3 * 3.1416 * 125;
  EXPECT_GT(n / 2000, density * sphere);
  EXPECT_LT(n / 2000, 6 * density * sphere);
}

Neighborhoods found(const NeighborhoodOptions& options, std::span<const double> positions, const Lattice& lattice) {
  Neighborhoods near;
  NeighborhoodSearch(options).find(positions, lattice, near);
  return near;
}

TEST(Neighborhoods, ExcludesTheLeastDistanceAndIncludesTheLargest) {
  const std::vector<double> row{0, 0, 0, 0.5, 0, 0, 2.5, 0, 0};  // distances 0.5, 2, 2.5
  const Lattice open({}, kNone);
  EXPECT_EQ(found({0.5, 2.5, 2.5}, row, open).edge_ends, (std::vector<size_t>{0, 1, 2, 4}));
  EXPECT_EQ(found({0.4, 2.5, 2.5}, row, open).edge_ends, (std::vector<size_t>{0, 2, 4, 6}));
  EXPECT_EQ(found({0.4, std::nextafter(2.5, 0), 2}, row, open).edge_ends, (std::vector<size_t>{0, 1, 3, 4}));
}

}  // namespace
}  // namespace atompack::physics
