#include "physics/neighbors/neighborhoods.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace atompack::physics {
namespace {

// The neighbor search excludes pairs at its cutoff and rounds, so the cutoff is increased slightly.
constexpr double kWider = 1 + 1e-9;

// Atoms within 21 Å in the densest metals. Memory and time grow with the square.
constexpr size_t kMaxAngular = 4096;

auto place_of(const PairList& pairs, size_t pair) {
  const auto& cells = pairs.shifts[pair].cells;
  return std::tuple(pairs.j[pair], cells[0], cells[1], cells[2]);
}

}  // namespace

void Neighborhoods::clear() {
  neighbors.clear();
  distances.clear();
  directions.clear();
  edge_ends.assign(1, 0);
  triplet_ends.assign(1, 0);
}

NeighborhoodSearch::NeighborhoodSearch(const NeighborhoodOptions& options)
    : options_(options), search_({.cutoff = options.max_cutoff * kWider, .full = true, .vectors = true}) {}

void NeighborhoodSearch::find(std::span<const double> positions, const Lattice& lattice, Neighborhoods& near) {
  pairs_.i.clear();
  pairs_.j.clear();
  pairs_.shifts.clear();
  pairs_.vectors.clear();
  pairs_.ends.clear();
  search_.find(positions, lattice, pairs_);
  distances_.resize(pairs_.size());
  std::ranges::transform(pairs_.vectors, distances_.begin(), &Vector::length);
  const size_t first_center = near.n_centers();
  size_t pair = 0;
  for (size_t atom = 0; atom < positions.size() / 3; ++atom) {
    const size_t first = pair;
    while (pair < pairs_.size() && pairs_.i[pair] == atom) ++pair;
    add_center(first, pair, first_center, near);
  }
}

// Adds the pairs in range, sorted.
void NeighborhoodSearch::take_in_order(size_t first, size_t last) {
  order_.clear();
  for (size_t pair = first; pair < last; ++pair) {
    if (distances_[pair] > options_.min_cutoff && distances_[pair] <= options_.max_cutoff) order_.push_back(pair);
  }
  const auto earlier = [&](size_t a, size_t b) { return place_of(pairs_, a) < place_of(pairs_, b); };
  if (!std::ranges::is_sorted(order_, earlier)) std::ranges::sort(order_, earlier);
}

void NeighborhoodSearch::add_center(size_t first, size_t last, size_t first_center, Neighborhoods& near) {
  take_in_order(first, last);
  size_t n_angular = 0;
  for (const size_t pair : order_) {
    const double distance = distances_[pair], inverse = 1 / distance;
    const auto& [x, y, z] = pairs_.vectors[pair].xyz;
    near.neighbors.push_back(static_cast<uint32_t>(first_center + pairs_.j[pair]));
    near.distances.push_back(distance);
    near.directions.push_back({x * inverse, y * inverse, z * inverse});
    n_angular += distance <= options_.ang_cutoff ? 1 : 0;
  }
  if (n_angular > kMaxAngular) {
    throw FieldError(cat("neighbors: expected at most ", kMaxAngular, " neighbors within ang_cutoff of an atom, got ",
                         n_angular, " for atom ", near.n_centers() - first_center))
        .at_field("positions");
  }
  near.edge_ends.push_back(near.neighbors.size());
  near.triplet_ends.push_back(near.n_triplets() + n_angular * (n_angular - 1) / 2);
}

}  // namespace atompack::physics
