// The atoms of a structure and, of their periodic images, those that can be near one of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "physics/neighbors/boxes.h"
#include "physics/neighbors/lattice.h"

namespace atompack::physics {

// By how many cells an image is away from the atom as it was given.
struct Image {
  Vector3 cells;  // whole numbers
  uint32_t atom;
};

// An atom moved into the cell.
struct WrappedAtom {
  Vector3 position;
  Vector3 along;  // the lattice's normals
  Vector3 cells;  // by which it was moved, whole numbers
};

// Of the list of images.
struct Range {
  size_t first, last;
  size_t size() const { return last - first; }
};

// Keeps its memory between structures.
class Images {
 public:
  // At most so many images, or pairs to look at, are justified by so many atoms: a few characters of a file can put all
  // atoms on one place or make the cell a speck, and then there is no end of neighbors.
  static double most_images(size_t n_atoms) {
    constexpr double kMostPlaces = 4294967295.0;  // that 32 bits can number
    return std::min(1048576.0 + 64.0 * static_cast<double>(n_atoms), kMostPlaces);
  }
  static double most_candidates(size_t n_atoms) { return 1048576.0 + 8192.0 * static_cast<double>(n_atoms); }

  // There is one atom at least. Throws FieldError where there are too many images, or too many of them near the atoms.
  void gather(std::span<const double> positions, const Lattice& lattice, double cutoff);

  // Images in the order of their boxes. Behind the coordinates there is room for kLanes more.
  static constexpr size_t kLanes = 8;
  const Image& image(size_t place) const { return images_[place]; }
  size_t size() const { return images_.size(); }
  const std::array<std::vector<float>, 3>& coordinates() const { return coordinates_; }

  // Where an atom is among them, and which of them can be near it.
  std::array<float, 3> point(size_t atom) const { return points_[atom]; }
  const Vector3& cells(size_t atom) const { return atoms_[atom].cells; }
  template <typename Visit>
  void visit_near(size_t atom, const Visit& visit) const {
    for (const int64_t row : rows_) {
      const uint64_t begin = boxes_of_[atom] + static_cast<uint64_t>(row);
      const Range range{order_.first(begin), order_.first(begin + Boxes::row_length())};
      if (range.size() > 0) visit(range);
    }
  }

  // Pairs whose coordinates here are farther apart than this are farther apart than the cutoff.
  float square_limit() const { return square_limit_; }

 private:
  struct Span {
    double first, last;  // whole cells
    double size() const { return last - first + 1; }
  };
  struct Staged {
    std::array<float, 3> point;
    Image image;
  };

  void wrap(std::span<const double> positions, const Lattice& lattice);
  void measure(const Lattice& lattice, double cutoff);
  Span span(const WrappedAtom& atom, const Lattice& lattice, size_t direction) const;
  void check_images(const Lattice& lattice) const;
  void stage(const Lattice& lattice);
  void stage_atom(uint32_t atom, const Lattice& lattice, const Boxes& boxes);
  void put_in_order(uint64_t n_numbers);
  void check_candidates() const;

  std::vector<WrappedAtom> atoms_;
  Extents extents_{};  // of the wrapped atoms
  Vector3 reach_{};    // the cutoff along each normal, with some room for rounding
  double rounding_ = 0;

  std::vector<Staged> staged_;
  std::vector<uint64_t> numbers_;  // of the boxes of what is staged
  BoxOrder order_;

  std::vector<std::array<float, 3>> points_;
  std::vector<uint64_t> boxes_of_;
  std::vector<int64_t> rows_;
  std::vector<Image> images_;
  std::array<std::vector<float>, 3> coordinates_;
  float square_limit_ = 0;
};

}  // namespace atompack::physics
