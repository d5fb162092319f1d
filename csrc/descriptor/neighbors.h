// Neighbor lists of one structure at a time, by vesin.
#pragma once

#include <vesin.h>

#include <array>
#include <span>
#include <vector>

#include "descriptor/lattice.h"
#include "descriptor/pair_list.h"

namespace atompack::descriptor {

struct NeighborOptions {
  double cutoff;  // pairs closer than this
  bool full = true;
  bool vectors = false;
  bool self_interaction = false;
};

// Keeps vesin's memory between structures. For one thread.
class NeighborSearch {
 public:
  explicit NeighborSearch(const NeighborOptions& options) : options_(options) {}
  NeighborSearch(const NeighborSearch&) = delete;
  NeighborSearch& operator=(const NeighborSearch&) = delete;
  ~NeighborSearch() { vesin_free(&found_); }

  // Adds the pairs of one structure. `positions` holds x, y, z of each atom. Throws FieldError where positions or cell
  // are not finite, the cell is singular, or there is more to look at than so many atoms can account for; `pairs` is
  // as before then.
  void find(std::span<const double> positions, const Lattice& lattice, PairList& pairs);

 private:
  void find_each(std::span<const double> positions, PairList& pairs) const;
  void find_by_vesin(std::span<const double> positions, const Lattice& lattice, double cutoff, PairList& pairs);
  void drop_far();
  void take_over(size_t n_atoms, PairList& pairs);

  NeighborOptions options_;
  VesinNeighborList found_;
  std::vector<size_t> places_;
};

}  // namespace atompack::descriptor
