#include "physics/farthest_points.h"

#include <algorithm>
#include <limits>

namespace atompack::physics {

FarthestPoints::FarthestPoints(std::span<const float> points, size_t n_columns, size_t first)
    : points_(points),
      n_columns_(n_columns),
      next_(first),
      nearest_(points.size() / n_columns, std::numeric_limits<float>::infinity()),
      owners_(nearest_.size()) {}

float FarthestPoints::square_between(size_t one, size_t other) const {
  const float* const a = points_.data() + one * n_columns_;
  const float* const b = points_.data() + other * n_columns_;
  constexpr size_t kLanes = 8;  // sums that the compiler adds to at the same time
  float sums[kLanes] = {};
  size_t column = 0;
  for (; column + kLanes <= n_columns_; column += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float difference = a[column + lane] - b[column + lane];
      sums[lane] += difference * difference;
    }
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  for (; column < n_columns_; ++column) sum += (a[column] - b[column]) * (a[column] - b[column]);
  return sum;
}

void FarthestPoints::choose_next() {
  const size_t center = next_;
  const auto number = static_cast<uint32_t>(chosen_.size());
  // A point is not nearer to this choice than to its owner if these are at least twice as far from each other.
  std::vector<float> quarters;
  for (const int64_t other : chosen_) quarters.push_back(square_between(center, static_cast<size_t>(other)) / 4);
  chosen_.push_back(static_cast<int64_t>(center));
  nearest_[center] = -1;
  float farthest = -1;
  for (size_t point = 0; point < nearest_.size(); ++point) {
    float& nearest = nearest_[point];
    if (number == 0 || quarters[owners_[point]] < nearest) {
      const float square = square_between(point, center);
      if (square < nearest) {
        nearest = square;
        owners_[point] = number;
      }
    }
    if (nearest > farthest) {
      farthest = nearest;
      next_ = point;
    }
  }
}

void FarthestPoints::choose(size_t n) {
  for (n = std::min(n, nearest_.size()); chosen_.size() < n;) choose_next();
}

}  // namespace atompack::physics
