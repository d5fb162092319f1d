#include "descriptor/boxes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"

namespace atompack::descriptor {
namespace {

double along(std::span<const double> positions, size_t atom, const Vector3& normal) {
  return dot({positions[3 * atom], positions[3 * atom + 1], positions[3 * atom + 2]}, normal);
}

// One direction cut into boxes.
struct Boxes {
  double first = 0, width = 1;
  double n = 1;
  bool wraps = false;

  uint64_t number(double x) const {
    const double box = std::floor((x - first) / width);
    return static_cast<uint64_t>(wraps ? box - n * std::floor(box / n) : std::clamp(box, 0.0, n - 1));
  }
  // How many boxes can hold what is within the cutoff of an atom.
  double reach(double cutoff) const {
    const double around = 2 * std::ceil(cutoff / width) + 1;
    return wraps ? around : std::min(n, around);
  }
};

Boxes cut(const Lattice& lattice, const Extents& extents, size_t direction, double cutoff) {
  constexpr double kMost = 1 << 20;  // three such numbers fit in 64 bits
  Boxes boxes;
  boxes.wraps = lattice.periodic()[direction];
  boxes.first = boxes.wraps ? 0 : extents[direction].first;
  const double length = boxes.wraps ? lattice.height(direction) : extents[direction].length();
  boxes.n = std::clamp(std::floor(length / cutoff), 1.0, kMost);
  boxes.width = boxes.n == 1 && !boxes.wraps ? std::numeric_limits<double>::infinity() : length / boxes.n;
  return boxes;
}

// What vesin's boxes would be like.
struct Shape {
  bool is_sound = true;
  double boxes = 1;
  double steps = 1;  // from each box to those around it
};

Shape shape_of(const Lattice& lattice, const Extents& extents, double cutoff) {
  constexpr double kMostBoxes = 1e5;
  constexpr double kLeastLeft = 4;  // each of two roundings takes less than half of what is left
  double total = 1, least = std::numeric_limits<double>::infinity(), reach = 1;
  for (size_t direction = 0; direction < 3; ++direction) {
    const Boxes boxes = cut(lattice, extents, direction, cutoff);
    const bool wraps = lattice.periodic()[direction];
    const double length = wraps ? lattice.height(direction) : extents[direction].length();
    least = std::min(least, std::max(std::floor(length / cutoff), 1.0));
    total *= length / cutoff + 2;  // an open structure is given some room around it
    reach *= boxes.reach(cutoff);
  }
  return {total < kMostBoxes || least * std::cbrt(kMostBoxes / total) > kLeastLeft, total,
          std::min(total, kMostBoxes) * reach};
}

}  // namespace

Extents extents_of(std::span<const double> positions, const Lattice& lattice) {
  Extents extents;
  for (size_t direction = 0; direction < 3; ++direction) {
    const Vector3& normal = lattice.normal(direction);
    double first = along(positions, 0, normal), last = first;
    for (size_t atom = 1; atom < positions.size() / 3; ++atom) {
      const double x = along(positions, atom, normal);
      first = std::min(first, x);
      last = std::max(last, x);
    }
    extents[direction] = {first, last};
  }
  return extents;
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

double most_candidates(size_t n_atoms) { return 1048576.0 + 8192.0 * static_cast<double>(n_atoms); }

double count_candidates(std::span<const double> positions, const Lattice& lattice, const Extents& extents,
                        double cutoff) {
  const size_t n_atoms = positions.size() / 3;
  double images = 1;
  for (size_t direction = 0; direction < 3; ++direction) {
    if (lattice.periodic()[direction]) images *= 2 * std::ceil(cutoff / lattice.height(direction)) + 1;
  }
  const double all = images * static_cast<double>(n_atoms) * static_cast<double>(n_atoms);
  if (all <= most_candidates(n_atoms)) return all;

  // Of two boxes with a and b atoms there are a * b <= (a * a + b * b) / 2 pairs: the sum of squares bounds them all.
  double reach = 1;
  std::vector<uint64_t> places(n_atoms, 0);
  for (size_t direction = 0; direction < 3; ++direction) {
    const Boxes boxes = cut(lattice, extents, direction, cutoff);
    reach *= boxes.reach(cutoff);
    for (size_t atom = 0; atom < n_atoms; ++atom) {
      places[atom] = places[atom] << 21 | boxes.number(along(positions, atom, lattice.normal(direction)));
    }
  }
  std::ranges::sort(places);
  double squares = 0;
  for (auto first = places.begin(); first != places.end();) {
    const auto last = std::upper_bound(first, places.end(), *first);
    const auto count = static_cast<double>(last - first);
    squares += count * count;
    first = last;
  }
  return reach * squares;
}

double workable_cutoff(std::span<const double> positions, const Lattice& lattice, const Extents& extents,
                       double cutoff) {
  double longest = 0;
  for (const Extent& extent : extents) longest = std::max(longest, extent.length());
  const double most = most_candidates(positions.size() / 3);
  for (;; cutoff *= 2) {
    const Shape shape = shape_of(lattice, extents, cutoff);
    const bool is_sparse = shape.boxes > std::max(512.0, 8 * static_cast<double>(positions.size() / 3));
    if (shape.is_sound && !is_sparse && shape.steps <= most &&
        count_candidates(positions, lattice, extents, cutoff) <= most) {
      return cutoff;
    }
    if (cutoff > longest) {
      throw FieldError(cat("neighbors: expected at most ", most, " pairs to look at for ", positions.size() / 3,
                           " atoms, got more: atoms on one place, or a cutoff of many cells"))
          .at_field("positions");
    }
  }
}

}  // namespace atompack::descriptor
