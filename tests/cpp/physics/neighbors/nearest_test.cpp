
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "physics/neighbors/neighbors.h"
#include "physics/neighbors/periodicity.h"

namespace atompack::physics {
namespace {

constexpr Matrix3 kCell{{{6, 0, 0}, {1, 6, 0}, {-1, 0.5, 7}}};

std::vector<double> random_positions(size_t n_atoms) {
  std::mt19937 random(static_cast<unsigned>(n_atoms));
  std::uniform_real_distribution<double> uniform(0, 6);
  std::vector<double> positions(3 * n_atoms);
  for (double& x : positions) x = uniform(random);
  return positions;
}

PairList pairs_of(std::span<const double> positions, const Lattice& lattice, bool vectors) {
  PairList pairs;
  NeighborSearch({.cutoff = 4, .vectors = vectors}).find(positions, lattice, pairs);
  return pairs;
}

std::vector<double> squares_of(const PairList& pairs, uint32_t atom) {
  std::vector<double> squares;
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const double length = pairs.vectors[pair].length();
    if (pairs.i[pair] == atom) squares.push_back(length * length);
  }
  std::ranges::sort(squares);
  return squares;
}

// An atom at 0 with neighbors on a line, at these distances from it.
std::vector<double> line(std::span<const double> distances) {
  std::vector<double> positions{0, 0, 0};
  for (const double distance : distances) positions.insert(positions.end(), {distance, 0, 0});
  return positions;
}

std::vector<uint32_t> neighbors_of_first(size_t max_neighbors, std::span<const double> distances) {
  const std::vector<double> positions = line(distances);
  PairList pairs = pairs_of(positions, Lattice({}, kNone), false);
  NearestNeighbors(max_neighbors).keep(positions, {}, pairs);
  std::vector<uint32_t> neighbors;
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    if (pairs.i[pair] == 0) neighbors.push_back(pairs.j[pair]);
  }
  std::ranges::sort(neighbors);
  return neighbors;
}

TEST(Nearest, AreTheShortestPairsOfEachAtom) {
  for (const auto& periodic : {kNone, kAll, std::array{true, false, true}}) {
    const std::vector<double> positions = random_positions(12);
    const Lattice lattice(kCell, periodic);
    const PairList all = pairs_of(positions, lattice, true);
    for (const size_t max_neighbors : {size_t{1}, size_t{5}, size_t{1000}}) {
      PairList kept = all;
      NearestNeighbors(max_neighbors).keep(positions, lattice.cell(), kept);
      EXPECT_TRUE(std::ranges::is_sorted(kept.i));
      EXPECT_EQ(kept.ends, std::vector{kept.i.size()});
      EXPECT_EQ(kept.vectors.size(), kept.size());
      for (uint32_t atom = 0; atom < 12; ++atom) {
        std::vector<double> expected = squares_of(all, atom);
        expected.resize(std::min(expected.size(), max_neighbors));
        EXPECT_EQ(squares_of(kept, atom), expected);
      }
    }
  }
}

TEST(Nearest, AreTheSameWithoutVectors) {
  const std::vector<double> positions = random_positions(9);
  const Lattice lattice(kCell, kAll);
  PairList with = pairs_of(positions, lattice, true), without = pairs_of(positions, lattice, false);
  NearestNeighbors nearest(4);
  nearest.keep(positions, lattice.cell(), with);
  nearest.keep(positions, lattice.cell(), without);
  EXPECT_EQ(with.size(), 9U * 4);
  EXPECT_EQ(with.j, without.j);
  EXPECT_TRUE(without.vectors.empty());
}

TEST(Nearest, AtOneDistanceAreTheFirstInTheList) {
  EXPECT_EQ(neighbors_of_first(2, std::vector<double>{1, 2, -2, 3}), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(neighbors_of_first(1, std::vector<double>{2, -2, 3}).size(), 1U);
}

TEST(Nearest, LeavesEarlierStructuresAlone) {
  const std::vector<double> positions = random_positions(8);
  const Lattice lattice(kCell, kAll);
  PairList pairs;
  NeighborSearch search({.cutoff = 4});
  search.find(positions, lattice, pairs);
  const size_t n_first = pairs.size();
  search.find(positions, lattice, pairs);
  NearestNeighbors nearest(3);
  nearest.keep(positions, lattice.cell(), pairs);
  EXPECT_EQ(pairs.ends, (std::vector<size_t>{n_first, n_first + 8 * 3}));
  search.find({}, Lattice({}, kNone), pairs);
  nearest.keep({}, {}, pairs);
  EXPECT_EQ(pairs.ends.back(), n_first + 8 * 3);
}

TEST(Nearest, IsAnOptionOfTheSearch) {
  const std::vector<double> positions = random_positions(8);
  const Lattice lattice(kCell, kAll);
  PairList expected = pairs_of(positions, lattice, true), found;
  NearestNeighbors(3).keep(positions, lattice.cell(), expected);
  NeighborSearch({.cutoff = 4, .vectors = true, .max_neighbors = 3}).find(positions, lattice, found);
  EXPECT_EQ(found.j, expected.j);
  EXPECT_EQ(found.ends, expected.ends);
}

}  // namespace
}  // namespace atompack::physics
