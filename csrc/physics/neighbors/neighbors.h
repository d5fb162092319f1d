// Neighbor lists of one structure at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "physics/neighbors/lattice.h"
#include "physics/neighbors/pair_list.h"
#include "physics/neighbors/periodic_images.h"

namespace atompack::physics {

// Limit on the number of neighbors of an atom.

// Keeps its memory between structures. For one thread.
class NearestNeighbors {
 public:
  // At least 1.
  explicit NearestNeighbors(size_t max_neighbors) : max_neighbors_(max_neighbors) {}

  // Removes those pairs of the last structure that are not among the nearest ones of their atom i; the others stay in
  // order. Of neighbors at the same distance, the first in the list count as nearest. The list is a full one without
  // self-interaction; `positions` and `cell` are those that it was made with.
  void keep(std::span<const double> positions, const Matrix3& cell, PairList& pairs);

 private:
  void measure(std::span<const double> positions, const Matrix3& cell, const PairList& pairs, size_t first,
               size_t last);
  size_t keep_of_atom(size_t first, size_t last, size_t end, PairList& pairs);

  size_t max_neighbors_;
  std::vector<double> squares_, sorted_;  // of one atom
};

struct NeighborOptions {
  double cutoff;  // pairs closer than this
  // Both (i, j, S) and (j, i, -S). Otherwise one of them: i < j, or for an atom and its own image the S with a positive
  // sum; if the sum is 0, with a positive third component, or a positive second one if that is 0 too.
  bool full = true;
  bool vectors = false;
  bool self_interaction = false;  // each atom with itself, before its other pairs
  // Pairs up to this length make triplets, which need full lists; nullopt: no triplets.
  std::optional<double> triplet_cutoff = std::nullopt;
  // At most this many pairs of each atom i, the shortest ones; for full lists without self-interaction.
  std::optional<size_t> max_neighbors = std::nullopt;
};

// Places of the images near some atoms, which are consecutive places too.
struct PlacesNear {
  Column<uint32_t> counts;  // by atom; 0 for images that are not atoms
  Column<uint32_t> places;

  // Keeps its memory.
  void clear() {
    counts.clear();
    places.clear();
  }
};

// Finds the same pairs as vesin: r_j - r_i + (S[0] cell[0] + S[1] cell[1] + S[2] cell[2]) is evaluated in this order in
// float64, so that both agree on pairs at the cutoff. Keeps its memory between structures. For one thread.
class NeighborSearch {
 public:
  explicit NeighborSearch(const NeighborOptions& options)
      : options_(options), nearest_(options.max_neighbors.value_or(0)) {}

  // Adds the pairs of one structure, sorted by i, and for each atom by the place of the image. `positions` holds x, y,
  // z of each atom. Throws FieldError if positions are not finite or too far from the origin, or if there are more
  // candidates than the number of atoms justifies; `pairs` is unchanged in that case.
  void find(std::span<const double> positions, const Lattice& lattice, PairList& pairs);

  // The same for several threads, without max_neighbors. `prepare` throws the errors of `find`. Then atoms
  // are known by their places among the images, of which consecutive ones are near each other. For each place of the
  // range that is an atom's, the places of the images that make pairs with it are put into `near`; each thread brings
  // working memory of its own.
  void prepare(std::span<const double> positions, const Lattice& lattice, const threads::ChunkedLoops& loops = {});
  size_t n_places() const { return images_.size(); }
  bool is_atom(size_t place) const { return images_.is_atom(place); }
  uint32_t atom_at(size_t place) const { return images_.image(place).atom; }
  void find_places(std::span<const double> positions, const Range& range, Column<uint32_t>& candidates,
                   PlacesNear& near) const;
  // Calls visit(j, place of the image of j, shift) for the pairs of the atom at a place, in the order of `find`.
  template <typename Visit>
  void visit_pairs(uint32_t self, std::span<const uint32_t> places, const Visit& visit) const {
    const std::array from = images_.image(self).cells;
    for (const uint32_t place : places) {
      const Image& image = images_.image(place);
      visit(image.atom, place, Shift{image.cells[0] - from[0], image.cells[1] - from[1], image.cells[2] - from[2]});
    }
  }
  // r_j - r_i + S cell; i and j number the positions, which are those that the search was prepared with, in any order.
  Vector vector_to(std::span<const double> positions, uint32_t i, uint32_t j, const Vector3& cells) const {
    Vector vector;
    for (size_t d = 0; d < 3; ++d) {
      vector.xyz[d] = positions[3 * j + d] - positions[3 * i + d] +
                      (cells[0] * cell_[0][d] + cells[1] * cell_[1][d] + cells[2] * cell_[2][d]);
    }
    return vector;
  }

 private:
  // Images that may be near an atom: their number, and whether all of them are nearer than the cutoff.
  struct Near {
    size_t size;
    bool sure;
  };
  Near pick_near(size_t i, const std::array<float, 3>& point, std::span<uint32_t> near) const;
  void add_pairs(std::span<const double> positions, uint32_t i, std::span<const uint32_t> near, PairList& pairs) const;
  void add_sure_pairs(uint32_t i, std::span<const uint32_t> near, PairList& pairs) const;
  bool is_wanted(uint32_t i, uint32_t j, const Vector3& cells) const;
  bool is_pair(std::span<const double> positions, uint32_t i, uint32_t place) const;
  struct Survey {
    bool in_range;  // all coordinates; nothing else is known if not
    double farthest;
    Extents extents;
  };
  Survey survey(std::span<const double> positions, const Lattice& lattice, const threads::ChunkedLoops& loops);

  NeighborOptions options_;
  Images images_;
  Matrix3 cell_{};
  std::vector<Survey> surveys_;  // by chunk
  Column<uint32_t> near_;        // places of images
  NearestNeighbors nearest_;
};

}  // namespace atompack::physics
