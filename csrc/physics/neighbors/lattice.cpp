#include "physics/neighbors/lattice.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace atompack::physics {
namespace {

// Minimum volume of the cell scaled to vectors of length 1. Rounding errors reach 1e-16; no crystal is near this value.
constexpr double kSingular = 1e-10;

// The cube of this length is still a finite double.
constexpr double kMaxLength = 1e50;

double length(const Vector3& a) { return std::hypot(a[0], a[1], a[2]); }

Vector3 scale(const Vector3& a, double factor) { return {a[0] * factor, a[1] * factor, a[2] * factor}; }

Vector3 any_normal(const Vector3& a) {
  const Vector3 away = std::abs(a[0]) < 0.9 * length(a) ? Vector3{1, 0, 0} : Vector3{0, 1, 0};
  return unit(cross(a, away));
}

}  // namespace

double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Vector3 unit(const Vector3& a) { return scale(a, 1 / length(a)); }

Lattice::Lattice(const Matrix3& cell, const std::array<bool, 3>& periodic) : cell_(cell), periodic_(periodic) {
  if (is_open()) {
    cell_ = {};
    return;
  }
  for (size_t direction = 0; direction < 3; ++direction) {
    for (const double x : cell[direction]) {
      if (periodic[direction] && !std::isfinite(x)) {
        throw FieldError(cat("cell: expected finite numbers, got ", x)).at_field("cell");
      }
    }
  }
  complete();
  if (!measure()) {
    throw FieldError("cell: expected linearly independent vectors where pbc is set, got a singular cell")
        .at_field("cell");
  }
}

// Replaces open directions by unit vectors perpendicular to all others.
void Lattice::complete() {
  size_t n_periodic = 0, open = 0, repeated = 0;
  for (size_t direction = 0; direction < 3; ++direction) {
    (periodic_[direction] ? repeated : open) = direction;
    n_periodic += periodic_[direction] ? 1 : 0;
  }
  if (n_periodic == 3 || !(length(cell_[repeated]) > 0)) return;
  if (n_periodic == 1) cell_[(repeated + 1) % 3] = any_normal(unit(cell_[repeated]));
  if (n_periodic == 1) open = (repeated + 2) % 3;
  const Vector3 &a = cell_[(open + 1) % 3], &b = cell_[(open + 2) % 3];
  if (length(a) > 0 && length(b) > 0) {
    const Vector3 normal = cross(unit(a), unit(b));
    if (length(normal) > kSingular) cell_[open] = unit(normal);
  }
}

// False if the cell is singular.
bool Lattice::measure() {
  Matrix3 units;
  for (size_t direction = 0; direction < 3; ++direction) {
    const double size = length(cell_[direction]);
    if (!(size > 1 / kMaxLength && size < kMaxLength)) return false;
    units[direction] = unit(cell_[direction]);
  }
  const double volume = dot(units[0], cross(units[1], units[2]));
  if (!(std::abs(volume) > kSingular)) return false;
  for (size_t direction = 0; direction < 3; ++direction) {
    const Vector3 normal = cross(units[(direction + 1) % 3], units[(direction + 2) % 3]);
    normals_[direction] = scale(normal, std::copysign(1 / length(normal), volume));
    heights_[direction] = dot(normals_[direction], cell_[direction]);
  }
  return true;
}

Extents extents_of(std::span<const double> positions, const Lattice& lattice) {
  Extents extents;
  for (size_t direction = 0; direction < 3; ++direction) {
    const Vector3& normal = lattice.normal(direction);
    for (size_t k = 0; k < positions.size(); k += 3) {
      extents[direction].add(dot({positions[k], positions[k + 1], positions[k + 2]}, normal));
    }
  }
  return extents;
}

void join(Extents& extents, const Extents& others) {
  for (size_t direction = 0; direction < 3; ++direction) {
    extents[direction].first = std::min(extents[direction].first, others[direction].first);
    extents[direction].last = std::max(extents[direction].last, others[direction].last);
  }
}

Lattice without_far_images(const Lattice& lattice, const Extents& extents, double cutoff) {
  constexpr double kRounding = 1 + 1e-6;
  std::array<bool, 3> periodic = lattice.periodic();
  for (size_t direction = 0; direction < 3; ++direction) {
    const double farthest = (extents[direction].length() + cutoff) * kRounding;
    periodic[direction] = periodic[direction] && lattice.height(direction) < farthest;
  }
  return periodic == lattice.periodic() ? lattice : Lattice(lattice.cell(), periodic);
}

}  // namespace atompack::physics
