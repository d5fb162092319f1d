#include "physics/neighbors/nearest.h"

#include <algorithm>

namespace atompack::physics {
namespace {

// In the order of evaluation of the neighbor search.
double square_of(std::span<const double> positions, const Matrix3& cell, const PairList& pairs, size_t pair) {
  if (!pairs.vectors.empty()) {
    const auto& [x, y, z] = pairs.vectors[pair].xyz;
    return x * x + y * y + z * z;
  }
  const auto& cells = pairs.shifts[pair].cells;
  const size_t i = pairs.i[pair], j = pairs.j[pair];
  Vector3 vector;
  for (size_t d = 0; d < 3; ++d) {
    vector[d] = positions[3 * j + d] - positions[3 * i + d] +
                (cells[0] * cell[0][d] + cells[1] * cell[1][d] + cells[2] * cell[2][d]);
  }
  return dot(vector, vector);
}

void move_pair(size_t from, size_t to, PairList& pairs) {
  pairs.i[to] = pairs.i[from];
  pairs.j[to] = pairs.j[from];
  pairs.shifts[to] = pairs.shifts[from];
  if (!pairs.vectors.empty()) pairs.vectors[to] = pairs.vectors[from];
}

}  // namespace

void NearestNeighbors::keep(std::span<const double> positions, const Matrix3& cell, PairList& pairs) {
  const size_t n_pairs = pairs.size();
  size_t first = pairs.ends.size() > 1 ? pairs.ends[pairs.ends.size() - 2] : 0;
  size_t end = first;
  while (first < n_pairs) {
    size_t last = first;
    while (last < n_pairs && pairs.i[last] == pairs.i[first]) ++last;
    if (last - first > max_neighbors_) measure(positions, cell, pairs, first, last);
    end = keep_of_atom(first, last, end, pairs);
    first = last;
  }
  if (pairs.ends.empty()) return;
  pairs.i.resize(end);
  pairs.j.resize(end);
  pairs.shifts.resize(end);
  if (!pairs.vectors.empty()) pairs.vectors.resize(end);
  pairs.ends.back() = end;
}

void NearestNeighbors::measure(std::span<const double> positions, const Matrix3& cell, const PairList& pairs,
                               size_t first, size_t last) {
  squares_.clear();
  for (size_t pair = first; pair < last; ++pair) squares_.push_back(square_of(positions, cell, pairs, pair));
}

// Moves the pairs that an atom keeps to `end`; returns the new end.
size_t NearestNeighbors::keep_of_atom(size_t first, size_t last, size_t end, PairList& pairs) {
  if (last - first <= max_neighbors_) {
    for (size_t pair = first; pair < last; ++pair) move_pair(pair, end++, pairs);
    return end;
  }
  sorted_ = squares_;
  const auto nth = sorted_.begin() + static_cast<std::ptrdiff_t>(max_neighbors_ - 1);
  std::ranges::nth_element(sorted_, nth);
  const double limit = *nth;
  const auto n_nearer = std::ranges::count_if(squares_, [limit](double square) { return square < limit; });
  size_t n_equal = max_neighbors_ - static_cast<size_t>(n_nearer);  // kept at the limit
  for (size_t pair = first; pair < last; ++pair) {
    const double square = squares_[pair - first];
    if (square > limit || (square == limit && n_equal == 0)) continue;
    if (square == limit) --n_equal;
    move_pair(pair, end++, pairs);
  }
  return end;
}

}  // namespace atompack::physics
