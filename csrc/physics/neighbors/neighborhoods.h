// The neighbors of each atom in a fixed order, within a closed range of distances.
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
  double min_cutoff;  // neighbors are farther than this,
  double max_cutoff;  // and no farther than that
  double ang_cutoff;  // two of those within this make a triplet with their center
};

// Growing room for the neighbors of many structures, one after the other; their atoms are numbered on. Edges of a
// center come by neighbor, then by the cell that its image lies in.
struct Neighborhoods {
  std::vector<uint32_t> neighbors;
  std::vector<double> distances;
  std::vector<Vector3> directions;                    // from the center to the neighbor, of length 1
  std::vector<size_t> edge_ends{0}, triplet_ends{0};  // after each center; a zero in front

  size_t n_centers() const { return edge_ends.size() - 1; }
  size_t n_edges() const { return edge_ends.back(); }
  size_t n_triplets() const { return triplet_ends.back(); }
  void clear();
};

// Keeps its memory between structures. For one thread.
class NeighborhoodSearch {
 public:
  explicit NeighborhoodSearch(const NeighborhoodOptions& options);

  // Adds the atoms of one structure. Throws FieldError where the neighbor search does, or where an atom has more
  // neighbors within `ang_cutoff` than any matter has (their pairs are without end); `near` is of no use then.
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
