// Neighbors of each atom in a fixed order, within a closed range of distances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/neighbors.h"
#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

struct NeighborhoodOptions {
  double min_cutoff;  // exclusive
  double max_cutoff;  // inclusive
  double ang_cutoff;  // two neighbors within this distance form a triplet with their center
};

// Growing memory for the neighbors of several structures, one after the other; atoms are numbered consecutively. Edges
// of a center are sorted by neighbor, then by the cell of its image.
struct Neighborhoods {
  std::vector<uint32_t> neighbors;
  std::vector<double> distances;
  std::vector<Vector3> directions;                    // unit vectors from the center to the neighbor
  std::vector<size_t> edge_ends{0}, triplet_ends{0};  // per center; with a leading zero

  size_t n_centers() const { return edge_ends.size() - 1; }
  size_t n_edges() const { return edge_ends.back(); }
  size_t n_triplets() const { return triplet_ends.back(); }
  void clear();
};

// Keeps its memory between structures. For one thread.
class NeighborhoodSearch {
 public:
  explicit NeighborhoodSearch(const NeighborhoodOptions& options);

  // Adds the atoms of one structure. Throws FieldError for errors of the neighbor search, or if an atom has an
  // unphysical number of neighbors within `ang_cutoff` (the number of pairs would be unbounded); `near` is invalid
  // then.
  void find(std::span<const double> positions, const Lattice& lattice, Neighborhoods& near);

 private:
  void add_center(size_t first, size_t last, size_t first_center, Neighborhoods& near);
  void take_in_order(size_t first, size_t last);

  NeighborhoodOptions options_;
  NeighborSearch search_;
  PairList pairs_;
  std::vector<size_t> order_;
  std::vector<double> distances_;
};

}  // namespace atompack::physics
