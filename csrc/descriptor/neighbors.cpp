#include "descriptor/neighbors.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "descriptor/boxes.h"

namespace atompack::descriptor {
namespace {

// Up to this many open atoms, looking at every pair is faster than sorting atoms into boxes.
constexpr size_t kMostForEach = 128;

// A float holds whole numbers up to twice this one; the search itself adds a few.
constexpr double kMostCells = 1 << 23;

// Beyond this, doubles no longer tell atoms apart.
constexpr double kFarthest = 1e15;

void check_range(std::span<const double> positions) {
  const auto wrong = std::ranges::find_if_not(positions, [](double x) { return std::abs(x) < kFarthest; });
  if (wrong == positions.end()) return;
  const auto atom = (wrong - positions.begin()) / 3;
  throw FieldError(std::isfinite(*wrong)
                       ? cat("positions: expected numbers below ", kFarthest, ", got ", *wrong, " for atom ", atom)
                       : cat("positions: expected finite numbers, got ", *wrong, " for atom ", atom))
      .at_field("positions");
}

void check_cells(const Lattice& lattice, const Extents& extents) {
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double cells =
        std::max(std::abs(extents[direction].first), std::abs(extents[direction].last)) / lattice.height(direction);
    if (cells < kMostCells) continue;
    throw FieldError(cat("positions: expected less than ", kMostCells, " cells from the origin, got ", cells))
        .at_field("positions");
  }
}

}  // namespace

void NeighborSearch::find(std::span<const double> positions, const Lattice& lattice, PairList& pairs) {
  if (!positions.empty()) {
    check_range(positions);
    Extents extents = extents_of(positions, lattice);
    check_cells(lattice, extents);
    const Lattice near = without_far_images(lattice, extents, options_.cutoff);
    extents = extents_of(positions, near);
    const size_t n = positions.size() / 3;
    if (near.is_open() && n <= kMostForEach) {
      find_each(positions, pairs);
    } else {
      const double cutoff = workable_cutoff(positions, near, extents, options_.cutoff);
      const bool few = static_cast<double>(n) * static_cast<double>(n) <= most_candidates(n);
      if (near.is_open() && few && cutoff > options_.cutoff) {  // scattered: most boxes would be empty
        find_each(positions, pairs);
      } else {
        find_by_vesin(positions, near, cutoff, pairs);
      }
    }
  }
  pairs.ends.push_back(pairs.i.size());
}

// Finds what vesin finds, in the same arithmetic.
void NeighborSearch::find_each(std::span<const double> positions, PairList& pairs) const {
  const size_t n = positions.size() / 3;
  const double square = options_.cutoff * options_.cutoff;
  std::vector<uint32_t> near(n);
  for (size_t i = 0; i < n; ++i) {
    size_t n_near = 0;
    for (size_t j = options_.full ? 0 : i; j < n; ++j) {
      const double x = positions[3 * j] - positions[3 * i];
      const double y = positions[3 * j + 1] - positions[3 * i + 1];
      const double z = positions[3 * j + 2] - positions[3 * i + 2];
      near[n_near] = static_cast<uint32_t>(j);
      const bool is_near = x * x + y * y + z * z < square;
      n_near += is_near && (i != j || options_.self_interaction) ? 1 : 0;
    }
    pairs.i.insert(pairs.i.end(), n_near, static_cast<uint32_t>(i));
    pairs.j.insert(pairs.j.end(), near.begin(), near.begin() + static_cast<ptrdiff_t>(n_near));
    if (!options_.vectors) continue;
    for (size_t k = 0; k < n_near; ++k) {
      const size_t j = near[k];
      pairs.vectors.push_back({{positions[3 * j] - positions[3 * i], positions[3 * j + 1] - positions[3 * i + 1],
                                positions[3 * j + 2] - positions[3 * i + 2]}});
    }
  }
  pairs.shifts.resize(pairs.i.size(), Shift{});
}

void NeighborSearch::find_by_vesin(std::span<const double> positions, const Lattice& lattice, double cutoff,
                                   PairList& pairs) {
  VesinOptions options{};
  options.cutoff = cutoff;
  options.full = options_.full;
  options.algorithm = VesinAutoAlgorithm;
  options.n_threads = 1;  // the caller has threads of its own
  options.return_shifts = true;
  options.return_vectors = options_.vectors || cutoff > options_.cutoff;
  const size_t n_atoms = positions.size() / 3;
  const Matrix3& cell = lattice.cell();
  const char* message = nullptr;
  const int status = vesin_neighbors(reinterpret_cast<const double(*)[3]>(positions.data()), n_atoms,
                                     reinterpret_cast<const double(*)[3]>(cell.data()), lattice.periodic().data(),
                                     VesinDevice{VesinCPU, 0}, options, &found_, &message);
  if (status != 0) {
    throw FieldError(cat("neighbors: ", message == nullptr ? "vesin found none" : message)).at_field("positions");
  }
  if (cutoff > options_.cutoff) drop_far();
  take_over(n_atoms, pairs);
}

// What only a wider cutoff has found.
void NeighborSearch::drop_far() {
  size_t n_near = 0;
  for (size_t k = 0; k < found_.length; ++k) {
    const auto& vector = found_.vectors[k];
    const double square = vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2];
    if (!(square < options_.cutoff * options_.cutoff)) continue;
    std::copy_n(found_.pairs[k], 2, found_.pairs[n_near]);
    std::copy_n(found_.shifts[k], 3, found_.shifts[n_near]);
    std::copy_n(found_.vectors[k], 3, found_.vectors[n_near]);
    ++n_near;
  }
  found_.length = n_near;
}

// Sorts by counting; pairs of one atom stay in vesin's order, behind that of the atom with itself.
void NeighborSearch::take_over(size_t n_atoms, PairList& pairs) {
  const size_t n_self = options_.self_interaction ? 1 : 0;
  places_.assign(n_atoms + 1, n_self);
  places_[0] = pairs.i.size();
  for (size_t k = 0; k < found_.length; ++k) ++places_[found_.pairs[k][0] + 1];
  for (size_t atom = 0; atom < n_atoms; ++atom) places_[atom + 1] += places_[atom];

  const size_t end = places_.back();
  pairs.i.resize(end);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
  if (options_.vectors) pairs.vectors.resize(end);
  for (size_t atom = 0; atom < n_atoms && n_self > 0; ++atom) {
    const size_t place = places_[atom]++;
    pairs.i[place] = pairs.j[place] = static_cast<uint32_t>(atom);
  }
  for (size_t k = 0; k < found_.length; ++k) {
    const auto& [i, j] = found_.pairs[k];
    const size_t place = places_[i]++;
    pairs.i[place] = static_cast<uint32_t>(i);
    pairs.j[place] = static_cast<uint32_t>(j);
    const auto& cells = found_.shifts[k];
    pairs.shifts[place] = {static_cast<float>(cells[0]), static_cast<float>(cells[1]), static_cast<float>(cells[2])};
    if (options_.vectors) std::copy_n(found_.vectors[k], 3, pairs.vectors[place].xyz);
  }
}

}  // namespace atompack::descriptor
