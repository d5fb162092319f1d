// Input of a neighbor search, read from a molecule's record.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/doubles.h"
#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"

namespace atompack::plan {

// Positions, cell and periodic directions in float64, read even if they are not selected for the batch.
class Structure {
 public:
  // Starts a new molecule.
  void clear() {
    cell_.reset();
    periodic_ = {};
  }

  void set_positions(const Geometry& geometry) {
    positions_.resize(static_cast<size_t>(geometry.n_atoms) * 3);
    load_doubles(positions_.data(), geometry.positions.data(), geometry.positions_dtype, positions_.size());
  }

  // Reads the cell and the periodic directions; ignores all other fields and damaged ones.
  void read_field(const FieldView& view, Bytes data) {
    if (view.scope != Scope::builtin || view.fault != nullptr) return;
    if (view.key == "cell") {
      load_doubles(cell_.emplace().front().data(), data.data(), view.type.dtype, 9);
    } else if (view.key == "pbc") {
      for (size_t direction = 0; direction < 3; ++direction) periodic_[direction] = data[direction] != std::byte{0};
    }
  }

  size_t n_atoms() const { return positions_.size() / 3; }

  bool is_open() const { return !cell_ || periodic_ == std::array<bool, 3>{}; }

  // Appends the neighbor pairs of the molecule to `pairs`. Throws FieldError if the search is not possible.
  void find_pairs(physics::NeighborSearch& search, physics::PairList& pairs) const {
    const physics::Lattice lattice(cell_.value_or(physics::Matrix3{}), cell_ ? periodic_ : std::array<bool, 3>{});
    search.find(positions_, lattice, pairs);
  }

 private:
  std::vector<double> positions_;
  std::optional<physics::Matrix3> cell_;
  std::array<bool, 3> periodic_{};
};

}  // namespace atompack::plan
