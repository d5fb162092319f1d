// Atoms of a structure, and those of their periodic images that can be near one of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "physics/neighbors/cell_list.h"
#include "physics/neighbors/lattice.h"
#include "physics/neighbors/pair_list.h"
#include "threads/chunked_loops.h"

namespace atompack::physics {

// Offset of an image from the atom as given, in cells.
struct Image {
  std::array<float, 3> cells;  // integers
  uint32_t atom;
};

// An atom moved into the cell.
struct WrappedAtom {
  Vector3 position;
  Vector3 along;  // coordinates along the lattice's normals
  Vector3 cells;  // cells by which it was moved, integers
};

// Range of the list of images.
struct Range {
  size_t first, last;
  size_t size() const { return last - first; }
};

// Keeps its memory between structures.
class Images {
 public:
  // Limits on images and candidate pairs for a number of atoms: a few characters of a file can put all atoms at one
  // point or make the cell tiny, and the number of neighbors would be unbounded.
  static double max_images(size_t n_atoms) {
    constexpr double kMaxPlaces = 4294967295.0;  // range of 32 bits
    return std::min(1048576.0 + 64.0 * static_cast<double>(n_atoms), kMaxPlaces);
  }
  static double max_candidates(size_t n_atoms) { return 1048576.0 + 8192.0 * static_cast<double>(n_atoms); }

  // Requires at least one atom. Throws FieldError for too many images or too many of them near the atoms.
  void gather(std::span<const double> positions, const Lattice& lattice, double cutoff,
              const threads::ChunkedLoops& loops = {});

  // Images in the order of their boxes. The coordinates are followed by room for kLanes more.
  static constexpr size_t kLanes = 8;
  const Image& image(size_t place) const { return images_[place]; }
  size_t size() const { return images_.size(); }
  const std::array<Column<float>, 3>& coordinates() const { return coordinates_; }

  // Position of an atom in these coordinates, and the ranges of images that can be near it.
  std::array<float, 3> point(size_t atom) const { return points_[atom]; }
  const Vector3& cells(size_t atom) const { return atoms_[atom].cells; }
  // The place of the atom itself.
  uint32_t place(size_t atom) const { return order_.places()[staged_of_[atom]]; }
  // True for an atom itself, false for its other images.
  bool is_atom(size_t place) const { return is_atom_[place] != 0; }
  std::array<float, 3> point_at(size_t place) const {
    return {coordinates_[0][place], coordinates_[1][place], coordinates_[2][place]};
  }
  template <typename Visit>
  void visit_near(size_t atom, const Visit& visit) const {
    for (const int64_t row : rows_) {
      const uint64_t begin = boxes_of_[atom] + static_cast<uint64_t>(row);
      const Range range{order_.first(begin), order_.first(begin + Boxes::row_length())};
      if (range.size() > 0) visit(range);
    }
  }

  // Squared distances in these coordinates: pairs up to the first are closer than the cutoff, those above the second
  // are not.
  struct Limits {
    float sure, possible;
  };
  const Limits& square_limits() const { return square_limits_; }

 private:
  struct Span {
    double first, last;  // whole cells
    double size() const { return last - first + 1; }
  };
  struct Staged {
    std::array<float, 3> point;
    Image image;
  };

  // Bounds of some atoms.
  struct Measured {
    Extents extents;
    Vector3 max_cells;  // by which an atom was moved
    double farthest;    // coordinate
  };

  Measured wrap(std::span<const double> positions, const Lattice& lattice, size_t first, size_t last);
  void measure(const Lattice& lattice, double cutoff);
  Span span(const WrappedAtom& atom, const Lattice& lattice, size_t direction) const;
  size_t count_images(const Lattice& lattice, const threads::ChunkedLoops& loops);
  void stage(const Lattice& lattice, size_t n_images, const threads::ChunkedLoops& loops);
  size_t stage_atom(uint32_t atom, const Lattice& lattice, const Boxes& boxes, size_t next);
  void put_in_order(uint64_t n_numbers, const threads::ChunkedLoops& loops);
  void set_limits(double cutoff);
  void check_candidates(const threads::ChunkedLoops& loops);

  Column<WrappedAtom> atoms_;
  Extents extents_{};  // of the wrapped atoms
  Vector3 reach_{};    // the cutoff along each normal, with a margin for rounding
  double rounding_ = 0;

  Column<Staged> staged_;
  Column<uint64_t> numbers_;    // box numbers of the staged images
  Column<uint32_t> staged_of_;  // by atom: the one that is the atom itself
  BoxOrder order_;

  // By chunk of the atoms.
  std::vector<Measured> measured_;
  std::vector<double> counts_;    // of images or candidates
  std::vector<double> farthest_;  // coordinate of an image

  Column<std::array<float, 3>> points_;
  Column<uint64_t> boxes_of_;
  std::vector<int64_t> rows_;
  Column<Image> images_;
  std::array<Column<float>, 3> coordinates_;
  Column<uint8_t> is_atom_;
  Limits square_limits_{};
};

}  // namespace atompack::physics
