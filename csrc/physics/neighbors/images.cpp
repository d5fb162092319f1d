#include "physics/neighbors/images.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace atompack::physics {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

double largest(const Vector3& a) { return std::max({std::abs(a[0]), std::abs(a[1]), std::abs(a[2])}); }

void move(Vector3& position, const Vector3& cell_vector, double cells) {
  for (size_t k = 0; k < 3; ++k) position[k] += cells * cell_vector[k];
}

WrappedAtom wrap_atom(const Vector3& position, const Lattice& lattice) {
  WrappedAtom atom{position, {}, {}};
  for (size_t direction = 0; direction < 3; ++direction) {
    atom.along[direction] = dot(position, lattice.normal(direction));
  }
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells = -std::floor(atom.along[direction] / lattice.height(direction));
    if (cells == 0) continue;
    atom.cells[direction] = cells;
    atom.along[direction] += cells * lattice.height(direction);
    move(atom.position, lattice.cell()[direction], cells);
  }
  return atom;
}

// Maximum component of a normal along the cell vectors that it should be perpendicular to, per unit of length.
double skew(const Lattice& lattice, size_t direction) {
  double max_skew = 0;
  for (size_t other = 0; other < 3; ++other) {
    const Vector3& vector = lattice.cell()[other];
    if (other == direction || !lattice.periodic()[other]) continue;
    max_skew = std::max(max_skew, std::abs(dot(lattice.normal(direction), vector)) / largest(vector));
  }
  return max_skew;
}

[[noreturn]] void refuse(double limit, const char* what, size_t n_atoms, double got) {
  throw FieldError(cat("neighbors: expected at most ", limit, " ", what, " for ", n_atoms, " atoms, got ", got,
                       ": atoms at the same position, or a cutoff of many cells"))
      .at_field("positions");
}

}  // namespace

void Images::gather(std::span<const double> positions, const Lattice& lattice, double cutoff) {
  wrap(positions, lattice);
  measure(lattice, cutoff);
  stage(lattice, count_images(lattice));

  // Each of two coordinates is rounded to a float.
  double farthest = 0;
  for (const Staged& staged : staged_) {
    for (const float x : staged.point) farthest = std::max(farthest, static_cast<double>(std::abs(x)));
  }
  constexpr double kFloatRounding = std::numeric_limits<float>::epsilon();
  const double rounding = rounding_ + 4 * kFloatRounding * farthest;
  const double possible = (cutoff + rounding) * (1 + 4 * kFloatRounding);
  const double sure = (cutoff - rounding) * (1 - 4 * kFloatRounding);
  square_limits_ = {sure > 0 ? static_cast<float>(sure * sure) : -1, static_cast<float>(possible * possible)};
  check_candidates();
}

void Images::wrap(std::span<const double> positions, const Lattice& lattice) {
  atoms_.resize(positions.size() / 3);
  for (size_t k = 0; k < atoms_.size(); ++k) {
    atoms_[k] = wrap_atom({positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]}, lattice);
  }
}

void Images::measure(const Lattice& lattice, double cutoff) {
  Vector3 max_cells{};
  double farthest = 0;
  for (size_t direction = 0; direction < 3; ++direction) {
    extents_[direction] = {atoms_[0].along[direction], atoms_[0].along[direction]};
  }
  for (const WrappedAtom& atom : atoms_) {
    farthest = std::max(farthest, largest(atom.position));
    for (size_t direction = 0; direction < 3; ++direction) {
      extents_[direction].first = std::min(extents_[direction].first, atom.along[direction]);
      extents_[direction].last = std::max(extents_[direction].last, atom.along[direction]);
      max_cells[direction] = std::max(max_cells[direction], std::abs(atom.cells[direction]));
    }
  }
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells = max_cells[direction] + cutoff / lattice.height(direction) + 2;
    farthest += cells * largest(lattice.cell()[direction]);
  }
  rounding_ = 64 * kEpsilon * farthest;
  for (size_t direction = 0; direction < 3; ++direction) {
    reach_[direction] = cutoff * (1 + 8 * kEpsilon) + rounding_ + 2 * skew(lattice, direction) * farthest;
  }
}

// The images of an atom within the cutoff of the box around all atoms.
Images::Span Images::span(const WrappedAtom& atom, const Lattice& lattice, size_t direction) const {
  if (!lattice.periodic()[direction]) return {0, 0};
  const double height = lattice.height(direction), x = atom.along[direction];
  return {std::ceil((extents_[direction].first - reach_[direction] - x) / height),
          std::floor((extents_[direction].last + reach_[direction] - x) / height)};
}

size_t Images::count_images(const Lattice& lattice) const {
  if (lattice.is_open()) return atoms_.size();
  double n = 0;
  for (const WrappedAtom& atom : atoms_) {
    n += span(atom, lattice, 0).size() * span(atom, lattice, 1).size() * span(atom, lattice, 2).size();
  }
  const double limit = max_images(atoms_.size());
  if (!(n <= limit)) refuse(limit, "images", atoms_.size(), n);
  return static_cast<size_t>(n);
}

void Images::stage(const Lattice& lattice, size_t n_images) {
  std::array<Boxes::Side, 3> sides;
  for (size_t direction = 0; direction < 3; ++direction) {
    const double beyond = lattice.periodic()[direction] ? reach_[direction] : 0;
    sides[direction] = {extents_[direction].first - beyond, extents_[direction].length() + 2 * beyond,
                        reach_[direction]};
  }
  const Boxes boxes(sides);
  rows_.assign(boxes.rows().begin(), boxes.rows().end());
  staged_.clear();
  numbers_.clear();
  staged_.reserve(n_images);
  numbers_.reserve(n_images);
  points_.resize(atoms_.size());
  boxes_of_.resize(atoms_.size());
  staged_of_.resize(atoms_.size());
  for (uint32_t atom = 0; atom < atoms_.size(); ++atom) stage_atom(atom, lattice, boxes);
  put_in_order(boxes.n_numbers());
}

void Images::stage_atom(uint32_t atom, const Lattice& lattice, const Boxes& boxes) {
  const WrappedAtom& from = atoms_[atom];
  const Vector3& origin = atoms_[0].position;  // floats are most precise near 0
  const Matrix3& cell = lattice.cell();
  const std::array spans{span(from, lattice, 0), span(from, lattice, 1), span(from, lattice, 2)};
  const auto along = [&](size_t direction, double cells) {
    return boxes.share(direction, from.along[direction] + cells * lattice.height(direction));
  };
  for (double a = spans[0].first; a <= spans[0].last; ++a) {
    const uint64_t plane = along(0, a);
    for (double b = spans[1].first; b <= spans[1].last; ++b) {
      const uint64_t line = plane + along(1, b);
      for (double c = spans[2].first; c <= spans[2].last; ++c) {
        std::array<float, 3> point;
        for (size_t k = 0; k < 3; ++k) {
          point[k] =
              static_cast<float>(from.position[k] - origin[k] + (a * cell[0][k] + b * cell[1][k] + c * cell[2][k]));
        }
        const uint64_t number = line + along(2, c);
        if (a == 0 && b == 0 && c == 0) {
          points_[atom] = point;
          boxes_of_[atom] = number;
          staged_of_[atom] = static_cast<uint32_t>(staged_.size());
        }
        staged_.push_back({point,
                           {{static_cast<float>(a + from.cells[0]), static_cast<float>(b + from.cells[1]),
                             static_cast<float>(c + from.cells[2])},
                            atom}});
        numbers_.push_back(number);
      }
    }
  }
}

void Images::put_in_order(uint64_t n_numbers) {
  order_.sort(numbers_, n_numbers);
  images_.resize(staged_.size());
  for (std::vector<float>& x : coordinates_) x.resize(staged_.size() + kLanes);
  for (size_t k = 0; k < staged_.size(); ++k) {
    const uint32_t place = order_.places()[k];
    images_[place] = staged_[k].image;
    for (size_t direction = 0; direction < 3; ++direction) {
      coordinates_[direction][place] = staged_[k].point[direction];
    }
  }
}

void Images::check_candidates() const {
  const double limit = max_candidates(atoms_.size());
  if (static_cast<double>(atoms_.size()) * static_cast<double>(images_.size()) <= limit) return;
  double n = 0;
  for (size_t atom = 0; atom < atoms_.size(); ++atom) {
    visit_near(atom, [&](const Range& range) { n += static_cast<double>(range.size()); });
  }
  if (n > limit) refuse(limit, "candidate pairs", atoms_.size(), n);
}

std::vector<uint32_t> Images::places() const {
  std::vector<bool> is_atom(images_.size());
  for (const uint32_t staged : staged_of_) is_atom[order_.places()[staged]] = true;
  std::vector<uint32_t> places;
  places.reserve(staged_of_.size());
  for (uint32_t place = 0; place < images_.size(); ++place) {
    if (is_atom[place]) places.push_back(place);
  }
  return places;
}

}  // namespace atompack::physics
