#include "physics/neighbors/periodic_images.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

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

void Images::gather(std::span<const double> positions, const Lattice& lattice, double cutoff,
                    const threads::ChunkedLoops& loops) {
  atoms_.resize(positions.size() / 3);
  measured_.resize(loops.n_chunks());
  loops.for_each(atoms_.size(), [&](size_t chunk, size_t first, size_t last) {
    measured_[chunk] = wrap(positions, lattice, first, last);
  });
  measure(lattice, cutoff);
  stage(lattice, count_images(lattice, loops), loops);
  set_limits(cutoff);
  check_candidates(loops);
}

Images::Measured Images::wrap(std::span<const double> positions, const Lattice& lattice, size_t first, size_t last) {
  Measured all{.extents = {}, .max_cells = {}, .farthest = 0};
  for (size_t k = first; k < last; ++k) {
    const WrappedAtom& atom = atoms_[k] =
        wrap_atom({positions[3 * k], positions[3 * k + 1], positions[3 * k + 2]}, lattice);
    all.farthest = std::max(all.farthest, largest(atom.position));
    for (size_t direction = 0; direction < 3; ++direction) {
      all.extents[direction].add(atom.along[direction]);
      all.max_cells[direction] = std::max(all.max_cells[direction], std::abs(atom.cells[direction]));
    }
  }
  return all;
}

void Images::measure(const Lattice& lattice, double cutoff) {
  Measured all = measured_.front();
  for (const Measured& some : measured_) {
    all.farthest = std::max(all.farthest, some.farthest);
    join(all.extents, some.extents);
    for (size_t direction = 0; direction < 3; ++direction) {
      all.max_cells[direction] = std::max(all.max_cells[direction], some.max_cells[direction]);
    }
  }
  extents_ = all.extents;
  double farthest = all.farthest;
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells = all.max_cells[direction] + cutoff / lattice.height(direction) + 2;
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

// Returns the number of all; `counts_` has the numbers before each chunk.
size_t Images::count_images(const Lattice& lattice, const threads::ChunkedLoops& loops) {
  counts_.resize(loops.n_chunks());
  loops.for_each(atoms_.size(), [&](size_t chunk, size_t first, size_t last) {
    double n = 0;
    if (lattice.is_open()) {
      n = static_cast<double>(last - first);
    } else {
      for (size_t k = first; k < last; ++k) {
        const WrappedAtom& atom = atoms_[k];
        n += span(atom, lattice, 0).size() * span(atom, lattice, 1).size() * span(atom, lattice, 2).size();
      }
    }
    counts_[chunk] = n;
  });
  double n = 0;
  for (double& count : counts_) n += std::exchange(count, n);
  const double limit = max_images(atoms_.size());
  if (!(n <= limit)) refuse(limit, "images", atoms_.size(), n);
  return static_cast<size_t>(n);
}

void Images::stage(const Lattice& lattice, size_t n_images, const threads::ChunkedLoops& loops) {
  std::array<Boxes::Side, 3> sides;
  for (size_t direction = 0; direction < 3; ++direction) {
    const double beyond = lattice.periodic()[direction] ? reach_[direction] : 0;
    sides[direction] = {extents_[direction].first - beyond, extents_[direction].length() + 2 * beyond,
                        reach_[direction]};
  }
  const Boxes boxes(sides);
  rows_.assign(boxes.rows().begin(), boxes.rows().end());
  staged_.resize(n_images);
  numbers_.resize(n_images);
  points_.resize(atoms_.size());
  boxes_of_.resize(atoms_.size());
  staged_of_.resize(atoms_.size());
  farthest_.resize(loops.n_chunks());
  loops.for_each(atoms_.size(), [&](size_t chunk, size_t first, size_t last) {
    const auto begin = static_cast<size_t>(counts_[chunk]);
    size_t end = begin;
    for (size_t atom = first; atom < last; ++atom) end = stage_atom(static_cast<uint32_t>(atom), lattice, boxes, end);
    double farthest = 0;
    for (size_t k = begin; k < end; ++k) {
      for (const float x : staged_[k].point) farthest = std::max(farthest, static_cast<double>(std::abs(x)));
    }
    farthest_[chunk] = farthest;
  });
  put_in_order(boxes.n_numbers(), loops);
}

// Returns the number of staged images after those of this atom, the first of which is `next`.
size_t Images::stage_atom(uint32_t atom, const Lattice& lattice, const Boxes& boxes, size_t next) {
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
          staged_of_[atom] = static_cast<uint32_t>(next);
        }
        staged_[next] = {point,
                         {{static_cast<float>(a + from.cells[0]), static_cast<float>(b + from.cells[1]),
                           static_cast<float>(c + from.cells[2])},
                          atom}};
        numbers_[next++] = number;
      }
    }
  }
  return next;
}

void Images::put_in_order(uint64_t n_numbers, const threads::ChunkedLoops& loops) {
  order_.sort(numbers_, n_numbers, loops);
  images_.resize(staged_.size());
  is_atom_.resize(staged_.size());
  for (Column<float>& x : coordinates_) {
    x.resize(staged_.size() + kLanes);
    std::fill_n(x.end() - kLanes, kLanes, 0.0F);
  }
  loops.for_each(staged_.size(), [&](size_t, size_t first, size_t last) {
    for (size_t k = first; k < last; ++k) {
      const uint32_t place = order_.places()[k];
      images_[place] = staged_[k].image;
      is_atom_[place] = staged_of_[staged_[k].image.atom] == k ? 1 : 0;
      for (size_t direction = 0; direction < 3; ++direction) {
        coordinates_[direction][place] = staged_[k].point[direction];
      }
    }
  });
}

// Each of two coordinates is rounded to a float.
void Images::set_limits(double cutoff) {
  constexpr double kFloatRounding = std::numeric_limits<float>::epsilon();
  const double rounding = rounding_ + 4 * kFloatRounding * *std::ranges::max_element(farthest_);
  const double possible = (cutoff + rounding) * (1 + 4 * kFloatRounding);
  const double sure = (cutoff - rounding) * (1 - 4 * kFloatRounding);
  square_limits_ = {sure > 0 ? static_cast<float>(sure * sure) : -1, static_cast<float>(possible * possible)};
}

void Images::check_candidates(const threads::ChunkedLoops& loops) {
  const double limit = max_candidates(atoms_.size());
  if (static_cast<double>(atoms_.size()) * static_cast<double>(images_.size()) <= limit) return;
  loops.for_each(atoms_.size(), [&](size_t chunk, size_t first, size_t last) {
    counts_[chunk] = 0;
    for (size_t atom = first; atom < last; ++atom) {
      visit_near(atom, [&](const Range& range) { counts_[chunk] += static_cast<double>(range.size()); });
    }
  });
  const double n = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  if (n > limit) refuse(limit, "candidate pairs", atoms_.size(), n);
}

}  // namespace atompack::physics
