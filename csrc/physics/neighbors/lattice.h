// Cell with periodic and open directions, prepared for a neighbor search.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>

namespace atompack::physics {

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<Vector3, 3>;  // rows

// Per direction: the unit normal of the plane spanned by the two other cell vectors, and the distance between such
// planes. The distance along an open direction is meaningless.
class Lattice {
 public:
  // Cell vectors of open directions are ignored and replaced. Throws FieldError if the periodic ones are not finite or
  // are linearly dependent.
  Lattice(const Matrix3& cell, const std::array<bool, 3>& periodic);

  const Matrix3& cell() const { return cell_; }
  const std::array<bool, 3>& periodic() const { return periodic_; }
  bool is_open() const { return !periodic_[0] && !periodic_[1] && !periodic_[2]; }

  const Vector3& normal(size_t direction) const { return normals_[direction]; }
  double height(size_t direction) const { return heights_[direction]; }

 private:
  void complete();
  bool measure();

  Matrix3 cell_;
  std::array<bool, 3> periodic_;
  Matrix3 normals_{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  Vector3 heights_{1, 1, 1};
};

double dot(const Vector3& a, const Vector3& b);
Vector3 cross(const Vector3& a, const Vector3& b);
Vector3 unit(const Vector3& a);

// Range of the atoms' coordinates along one of the lattice's normals.
struct Extent {
  double first = std::numeric_limits<double>::infinity(), last = -first;  // of no atoms

  double length() const { return last - first; }
  void add(double x) {
    first = std::min(first, x);
    last = std::max(last, x);
  }
};
using Extents = std::array<Extent, 3>;
void join(Extents& extents, const Extents& others);

// `positions` holds x, y, z of each atom.
Extents extents_of(std::span<const double> positions, const Lattice& lattice);

// Returns the lattice with directions made open if no image along them is within the cutoff.
Lattice without_far_images(const Lattice& lattice, const Extents& extents, double cutoff);

}  // namespace atompack::physics
