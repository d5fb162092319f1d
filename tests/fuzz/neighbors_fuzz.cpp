#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "physics/neighbors/neighbors.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using physics::Lattice;
using physics::Matrix3;
using physics::NeighborOptions;
using physics::NeighborSearch;
using physics::PairList;
using physics::Vector3;

constexpr double kMinCutoff = 1e-3;  // as the package takes it
constexpr size_t kMaxAtoms = 200;

// i, j, S
using Pair = std::tuple<uint32_t, uint32_t, int64_t, int64_t, int64_t>;
using Pairs = std::multiset<Pair>;

struct Problem {
  NeighborOptions options;
  std::array<bool, 3> periodic;
  Matrix3 cell;
  std::vector<double> positions;
};

// Numbers of 8 bytes, or of 2 that are of the size of what matter is made of.
class Numbers {
 public:
  Numbers(Bytes input, bool are_wide) : left_(input), width_(are_wide ? sizeof(double) : sizeof(int16_t)) {}

  std::optional<double> next() {
    if (left_.size() < width_) return std::nullopt;
    double wide = 0;
    int16_t narrow = 0;
    std::memcpy(width_ == sizeof(double) ? static_cast<void*>(&wide) : &narrow, left_.data(), width_);
    left_ = left_.subspan(width_);
    return width_ == sizeof(double) ? wide : narrow / 256.0;
  }

 private:
  Bytes left_;
  size_t width_;
};

std::optional<Problem> problem_of(Bytes input) {
  if (input.empty()) return std::nullopt;
  const auto flags = static_cast<unsigned>(input[0]);
  Numbers numbers(input.subspan(1), (flags & 64) != 0);
  Problem problem{};
  problem.periodic = {(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
  problem.options = {.cutoff = std::abs(numbers.next().value_or(1)),
                     .full = (flags & 8) != 0,
                     .vectors = (flags & 16) != 0,
                     .self_interaction = (flags & 32) != 0};
  if (!(problem.options.cutoff >= kMinCutoff) || std::isinf(problem.options.cutoff)) return std::nullopt;
  for (Vector3& vector : problem.cell) {
    for (double& x : vector) x = numbers.next().value_or(0);
  }
  while (const std::optional<double> x = numbers.next()) problem.positions.push_back(*x);
  problem.positions.resize(std::min(problem.positions.size() / 3, kMaxAtoms) * 3);
  return problem;
}

Vector3 vector_of(const Problem& problem, const Matrix3& cell, const Pair& pair) {
  const auto [i, j, a, b, c] = pair;
  Vector3 vector;
  for (size_t d = 0; d < 3; ++d) {
    vector[d] = problem.positions[3 * j + d] - problem.positions[3 * i + d] +
                (static_cast<double>(a) * cell[0][d] + static_cast<double>(b) * cell[1][d] +
                 static_cast<double>(c) * cell[2][d]);
  }
  return vector;
}

bool is_near(const Problem& problem, const Matrix3& cell, const Pair& pair) {
  const auto [x, y, z] = vector_of(problem, cell, pair);
  return x * x + y * y + z * z < problem.options.cutoff * problem.options.cutoff;
}

bool is_listed(const NeighborOptions& options, const Pair& pair) {
  const auto [i, j, a, b, c] = pair;
  const bool is_itself = i == j && a == 0 && b == 0 && c == 0;
  if (is_itself) return options.self_interaction;
  if (options.full) return true;
  if (i != j) return i < j;
  const int64_t sum = a + b + c;
  return sum > 0 || (sum == 0 && (c > 0 || (c == 0 && b > 0)));
}

// How many cells away the images can be that a slow search looks at; nothing where it would take too long.
std::optional<std::array<int64_t, 3>> reach_of(const Problem& problem, const Lattice& lattice) {
  constexpr double kMostPairs = 20000;
  const auto n_atoms = static_cast<double>(problem.positions.size() / 3);
  double n = n_atoms * n_atoms;
  std::array<double, 3> cells{};
  const physics::Extents extents = extents_of(problem.positions, lattice);
  for (size_t d = 0; d < 3; ++d) {
    if (!lattice.periodic()[d]) continue;
    cells[d] = std::ceil((extents[d].length() + problem.options.cutoff) / lattice.height(d)) + 1;
    n *= 2 * cells[d] + 1;
  }
  if (!(n <= kMostPairs)) return std::nullopt;
  return std::array{static_cast<int64_t>(cells[0]), static_cast<int64_t>(cells[1]), static_cast<int64_t>(cells[2])};
}

Pairs search_slowly(const Problem& problem, const Matrix3& cell, const std::array<int64_t, 3>& reach) {
  Pairs pairs;
  const auto n = static_cast<uint32_t>(problem.positions.size() / 3);
  for (int64_t a = -reach[0]; a <= reach[0]; ++a)
    for (int64_t b = -reach[1]; b <= reach[1]; ++b)
      for (int64_t c = -reach[2]; c <= reach[2]; ++c)
        for (uint32_t i = 0; i < n; ++i)
          for (uint32_t j = 0; j < n; ++j) {
            const Pair pair{i, j, a, b, c};
            if (is_listed(problem.options, pair) && is_near(problem, cell, pair)) pairs.insert(pair);
          }
  return pairs;
}

// What holds of every list, however long.
Pairs checked(const Problem& problem, const Lattice& lattice, const PairList& pairs) {
  require(pairs.ends == std::vector<size_t>{pairs.i.size()}, "one structure was added");
  require(pairs.j.size() == pairs.size() && pairs.shifts.size() == pairs.size(), "a pair has all its parts");
  require(pairs.vectors.size() == (problem.options.vectors ? pairs.size() : 0), "vectors are there if asked for");
  require(std::ranges::is_sorted(pairs.i), "pairs are sorted by i");
  constexpr size_t kMostCompared = 20000;
  Pairs found;
  for (size_t k = 0; k < pairs.size(); ++k) {
    const auto& [a, b, c] = pairs.shifts[k].cells;
    const Pair pair{pairs.i[k], pairs.j[k], static_cast<int64_t>(a), static_cast<int64_t>(b), static_cast<int64_t>(c)};
    require(is_listed(problem.options, pair) && is_near(problem, lattice.cell(), pair), "a pair is near and wanted");
    if (problem.options.vectors) {
      const auto& xyz = pairs.vectors[k].xyz;
      require(std::ranges::equal(xyz, vector_of(problem, lattice.cell(), pair)), "a vector leads from i to j");
    }
    if (pairs.size() <= kMostCompared) found.insert(pair);
  }
  return found;
}

// Nothing where the structure is refused.
std::optional<PairList> found_by(NeighborSearch& search, std::span<const double> positions, const Lattice& lattice) {
  PairList pairs;
  try {
    search.find(positions, lattice, pairs);
    return pairs;
  } catch (const FieldError&) {
    require(pairs.i.empty() && pairs.j.empty() && pairs.shifts.empty() && pairs.vectors.empty() && pairs.ends.empty(),
            "a refused structure adds nothing");
    return std::nullopt;
  }
}

}  // namespace

void find_neighbors(Bytes input) {
  const std::optional<Problem> problem = problem_of(input);
  if (!problem) return;
  std::optional<Lattice> lattice;
  try {
    lattice.emplace(problem->cell, problem->periodic);
  } catch (const FieldError&) {
    return;
  }
  NeighborSearch search(problem->options);
  const std::optional<PairList> pairs = found_by(search, problem->positions, *lattice);
  if (!pairs) return;
  const Pairs found = checked(*problem, *lattice, *pairs);
  if (problem->positions.empty()) return require(pairs->size() == 0, "no atoms have no neighbors");
  const auto reach = reach_of(*problem, *lattice);
  if (reach) require(found == search_slowly(*problem, lattice->cell(), *reach), "the pairs of a slow search");
}

}  // namespace atompack::fuzz
