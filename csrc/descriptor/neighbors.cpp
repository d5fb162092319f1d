#include "descriptor/neighbors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace atompack::descriptor {
namespace {

// Up to this many open atoms, looking at every pair is faster than sorting atoms into boxes.
constexpr size_t kMostForEach = 128;

// A float holds whole numbers up to twice this one; the search itself adds a few.
constexpr double kMostCells = 1 << 23;

void check_finite(std::span<const double> positions) {
  // NaN and infinity both make the sum of x - x something else than 0.
  double sum = 0;
  for (const double x : positions) sum += x - x;
  if (sum == 0) return;
  const auto wrong = std::ranges::find_if_not(positions, [](double x) { return std::isfinite(x); });
  const auto atom = (wrong - positions.begin()) / 3;
  throw FieldError(cat("positions: expected finite numbers, got ", *wrong, " for atom ", atom)).at_field("positions");
}

Vector3 position(std::span<const double> positions, size_t atom) {
  return {positions[3 * atom], positions[3 * atom + 1], positions[3 * atom + 2]};
}

void check_cells(std::span<const double> positions, const Lattice& lattice) {
  for (size_t direction = 0; direction < 3; ++direction) {
    if (!lattice.periodic()[direction]) continue;
    const double farthest = kMostCells * lattice.height(direction);
    for (size_t atom = 0; atom < positions.size() / 3; ++atom) {
      if (std::abs(dot(position(positions, atom), lattice.normal(direction))) < farthest) continue;
      throw FieldError(
          cat("positions: expected less than ", kMostCells, " cells from the origin, got more for atom ", atom))
          .at_field("positions");
    }
  }
}

void check_candidates(std::span<const double> positions, const Lattice& lattice, double cutoff) {
  const double most = most_candidates(positions.size() / 3);
  const double candidates = count_candidates(positions, lattice, cutoff);
  if (candidates <= most) return;
  throw FieldError(cat("neighbors: expected at most ", most, " pairs to look at for ", positions.size() / 3,
                       " atoms, got ", candidates, ": atoms on one place, or a cutoff of many cells"))
      .at_field("positions");
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
    const double each_side = std::ceil(cutoff / width);
    return wraps ? 2 * each_side + 1 : std::min(n, 2 * each_side + 1);
  }
};

Boxes cut(std::span<const double> positions, const Lattice& lattice, size_t direction, double cutoff) {
  Boxes boxes;
  boxes.wraps = lattice.periodic()[direction];
  double extent = lattice.height(direction);
  if (!boxes.wraps) {
    double last = -std::numeric_limits<double>::infinity();
    boxes.first = std::numeric_limits<double>::infinity();
    for (size_t atom = 0; atom < positions.size() / 3; ++atom) {
      const double x = dot(position(positions, atom), lattice.normal(direction));
      boxes.first = std::min(boxes.first, x);
      last = std::max(last, x);
    }
    extent = last - boxes.first;
  }
  constexpr double kMost = 1 << 20;  // three such numbers fit in 64 bits
  boxes.n = std::clamp(std::floor(extent / cutoff), 1.0, kMost);
  boxes.width = boxes.n == 1 && !boxes.wraps ? std::numeric_limits<double>::infinity() : extent / boxes.n;
  return boxes;
}

}  // namespace

double most_candidates(size_t n_atoms) { return 16777216.0 + 8192.0 * static_cast<double>(n_atoms); }

double count_candidates(std::span<const double> positions, const Lattice& lattice, double cutoff) {
  const size_t n_atoms = positions.size() / 3;
  const auto n = static_cast<double>(n_atoms);
  double images = 1;
  for (size_t direction = 0; direction < 3; ++direction) {
    if (lattice.periodic()[direction]) images *= 2 * std::ceil(cutoff / lattice.height(direction)) + 1;
  }
  if (images * n * n <= most_candidates(n_atoms)) return images * n * n;

  // Of two boxes with a and b atoms there are a * b <= (a * a + b * b) / 2 pairs: the sum of squares bounds them all.
  std::array<Boxes, 3> boxes;
  double reach = 1;
  for (size_t direction = 0; direction < 3; ++direction) {
    boxes[direction] = cut(positions, lattice, direction, cutoff);
    reach *= boxes[direction].reach(cutoff);
  }
  std::vector<uint64_t> places(n_atoms, 0);
  for (size_t atom = 0; atom < n_atoms; ++atom) {
    for (size_t direction = 0; direction < 3; ++direction) {
      const double x = dot(position(positions, atom), lattice.normal(direction));
      places[atom] = places[atom] << 21 | boxes[direction].number(x);
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

void NeighborSearch::find(std::span<const double> positions, const Lattice& lattice, PairList& pairs) {
  if (!positions.empty()) {
    check_finite(positions);
    check_cells(positions, lattice);
    check_candidates(positions, lattice, options_.cutoff);
    if (lattice.is_open() && positions.size() <= 3 * kMostForEach) {
      find_each(positions, pairs);
    } else {
      find_by_vesin(positions, lattice, pairs);
    }
  }
  pairs.ends.push_back(pairs.i.size());
}

// Finds what vesin finds, in the same arithmetic.
void NeighborSearch::find_each(std::span<const double> positions, PairList& pairs) const {
  const size_t n = positions.size() / 3;
  const double square = options_.cutoff * options_.cutoff;
  std::array<uint32_t, kMostForEach> near;
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

void NeighborSearch::find_by_vesin(std::span<const double> positions, const Lattice& lattice, PairList& pairs) {
  VesinOptions options{};
  options.cutoff = options_.cutoff;
  options.full = options_.full;
  options.algorithm = VesinAutoAlgorithm;
  options.n_threads = 1;  // the caller has threads of its own
  options.return_shifts = true;
  options.return_vectors = options_.vectors;
  const size_t n_atoms = positions.size() / 3;
  const Matrix3& cell = lattice.cell();
  const char* message = nullptr;
  const int status = vesin_neighbors(reinterpret_cast<const double(*)[3]>(positions.data()), n_atoms,
                                     reinterpret_cast<const double(*)[3]>(cell.data()), lattice.periodic().data(),
                                     VesinDevice{VesinCPU, 0}, options, &found_, &message);
  if (status != 0) {
    throw FieldError(cat("neighbors: ", message == nullptr ? "vesin found none" : message)).at_field("positions");
  }
  take_over(n_atoms, pairs);
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
