// Neighbor lists of one structure at a time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "physics/neighbors/images.h"
#include "physics/neighbors/lattice.h"
#include "physics/neighbors/nearest.h"
#include "physics/neighbors/pair_list.h"

namespace atompack::physics {

struct NeighborOptions {
  double cutoff;  // pairs closer than this
  // Both (i, j, S) and (j, i, -S). Otherwise one of them: i < j, or for an atom and its own image the S with a positive
  // sum; if the sum is 0, with a positive third component, or a positive second one if that is 0 too.
  bool full = true;
  bool vectors = false;
  bool self_interaction = false;  // each atom with itself, before its other pairs
  // Pairs up to this length make triplets, which need full lists; nullopt: no triplets.
  std::optional<double> triplet_cutoff = std::nullopt;
  // Only so many pairs of each atom i, the shortest ones; for full lists without self-interaction.
  std::optional<size_t> max_neighbors = std::nullopt;
};

// Finds the same pairs as vesin: r_j - r_i + (S[0] cell[0] + S[1] cell[1] + S[2] cell[2]) is evaluated in this order in
// float64, so that both agree on pairs at the cutoff. Keeps its memory between structures. For one thread.
class NeighborSearch {
 public:
  explicit NeighborSearch(const NeighborOptions& options)
      : options_(options), nearest_(options.max_neighbors.value_or(0)) {}

  // Adds the pairs of one structure, sorted by i, and for each atom by the place of the image. `positions` holds x, y,
  // z of each atom. Throws FieldError if positions are not finite or too far from the origin, or if there are more
  // candidates than the number of atoms justifies; `pairs` is unchanged then.
  void find(std::span<const double> positions, const Lattice& lattice, PairList& pairs);

 private:
  // Images that may be near an atom: those up to `near_[size]`, all of them nearer than the cutoff if `sure`.
  struct Near {
    size_t size;
    bool sure;
  };
  Near pick_near(size_t i);
  void add_pairs(std::span<const double> positions, const Matrix3& cell, uint32_t i, size_t n_near, PairList& pairs);
  void add_sure_pairs(uint32_t i, size_t n_near, PairList& pairs);
  bool is_wanted(uint32_t i, uint32_t j, const Vector3& cells) const;

  NeighborOptions options_;
  Images images_;
  std::vector<uint32_t> near_;  // places of images
  NearestNeighbors nearest_;
};

}  // namespace atompack::physics
