#include "physics/neighbors/neighbors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace atompack::physics {
namespace {

// A float holds integers up to four times this number: two atoms may be that far from the origin on opposite sides.
constexpr double kMaxCells = 1 << 22;

// Beyond this, doubles no longer distinguish atoms.
constexpr double kMaxCoordinate = 1e15;

void check_range(std::span<const double> positions) {
  const auto wrong = std::ranges::find_if_not(positions, [](double x) { return std::abs(x) < kMaxCoordinate; });
  if (wrong == positions.end()) return;
  const auto atom = (wrong - positions.begin()) / 3;
  throw FieldError(std::isfinite(*wrong)
                       ? cat("positions: expected numbers below ", kMaxCoordinate, ", got ", *wrong, " for atom ", atom)
                       : cat("positions: expected finite numbers, got ", *wrong, " for atom ", atom))
      .at_field("positions");
}

// Rounding error of coordinates along a normal.
double rounding_of(std::span<const double> positions) {
  double farthest = 0;
  for (const double x : positions) farthest = std::max(farthest, std::abs(x));
  return 64 * std::numeric_limits<double>::epsilon() * farthest;
}

void check_cells(const Lattice& lattice, const Extents& extents) {
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells =
        std::max(std::abs(extents[direction].first), std::abs(extents[direction].last)) / lattice.height(direction);
    if (cells < kMaxCells) continue;
    throw FieldError(cat("positions: expected less than ", kMaxCells, " cells from the origin, got ", cells))
        .at_field("positions");
  }
}

// Squared distances of a range of images, rounded up to full lanes.
void measure(const Images& images, const Range& range, const std::array<float, 3>& from, float* squares) {
  const float* const x = images.coordinates()[0].data() + range.first;
  const float* const y = images.coordinates()[1].data() + range.first;
  const float* const z = images.coordinates()[2].data() + range.first;
  for (size_t k = 0; k < range.size(); k += Images::kLanes) {
    for (size_t lane = k; lane < k + Images::kLanes; ++lane) {
      const float dx = x[lane] - from[0], dy = y[lane] - from[1], dz = z[lane] - from[2];
      squares[lane] = dx * dx + dy * dy + dz * dz;
    }
  }
}

}  // namespace

void NeighborSearch::find(std::span<const double> positions, const Lattice& lattice, PairList& pairs) {
  if (positions.empty()) return pairs.ends.push_back(pairs.i.size());
  check_range(positions);
  const Extents extents = extents_of(positions, lattice);
  check_cells(lattice, extents);
  const Lattice near = without_far_images(lattice, extents, options_.cutoff + rounding_of(positions));
  images_.gather(positions, near, options_.cutoff);
  near_.resize(images_.size());
  for (uint32_t i = 0; i < positions.size() / 3; ++i) {
    add_pairs(positions, near.cell(), i, pick_near(i), pairs);
  }
  pairs.ends.push_back(pairs.i.size());
  if (options_.max_neighbors) nearest_.keep(positions, near.cell(), pairs);
}

// Coarse comparison in float32: some of the remaining images may be slightly too far.
size_t NeighborSearch::pick_near(size_t i) {
  constexpr size_t kBlock = 256;
  alignas(32) float squares[kBlock];
  const float limit = images_.square_limit();
  size_t n_near = 0;
  images_.visit_near(i, [&](const Range& range) {
    for (size_t first = range.first; first < range.last; first += kBlock) {
      const Range block{first, std::min(range.last, first + kBlock)};
      measure(images_, block, images_.point(i), squares);
      for (size_t k = 0; k < block.size(); ++k) {
        near_[n_near] = static_cast<uint32_t>(first + k);
        n_near += squares[k] > limit ? 0 : 1;  // NaN is kept: out of the range of float32
      }
    }
  });
  return n_near;
}

// Final comparison in float64.
void NeighborSearch::add_pairs(std::span<const double> positions, const Matrix3& cell, uint32_t i, size_t n_near,
                               PairList& pairs) {
  size_t end = pairs.i.size() + (options_.self_interaction ? 1 : 0);
  pairs.j.resize(end + n_near);
  pairs.shifts.resize(end + n_near);
  if (options_.vectors) pairs.vectors.resize(end + n_near);
  if (options_.self_interaction) pairs.j[end - 1] = i;

  const double square = options_.cutoff * options_.cutoff;
  const Vector3& from = images_.cells(i);
  for (size_t k = 0; k < n_near; ++k) {
    const Image& image = images_.image(near_[k]);
    const double* const shift = image.cells.data();
    const Vector3 cells{shift[0] - from[0], shift[1] - from[1], shift[2] - from[2]};
    Vector vector;
    for (size_t d = 0; d < 3; ++d) {
      vector.xyz[d] = positions[3 * image.atom + d] - positions[3 * i + d] +
                      (cells[0] * cell[0][d] + cells[1] * cell[1][d] + cells[2] * cell[2][d]);
    }
    const auto [x, y, z] = vector.xyz;
    pairs.j[end] = image.atom;
    for (size_t d = 0; d < 3; ++d) pairs.shifts[end].cells[d] = static_cast<float>(cells[d]);
    if (options_.vectors) pairs.vectors[end] = vector;
    end += x * x + y * y + z * z < square && is_wanted(i, image.atom, cells) ? 1 : 0;
  }
  pairs.i.resize(end, i);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
  if (options_.vectors) pairs.vectors.resize(end);
}

bool NeighborSearch::is_wanted(uint32_t i, uint32_t j, const Vector3& cells) const {
  if (options_.full) return i != j || cells[0] != 0 || cells[1] != 0 || cells[2] != 0;
  if (i != j) return i < j;
  const double sum = cells[0] + cells[1] + cells[2];
  return sum > 0 || (sum == 0 && (cells[2] > 0 || (cells[2] == 0 && cells[1] > 0)));
}

}  // namespace atompack::physics
