// Choice of points that are far from each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace atompack::physics {

// Farthest-point sampling: each further point is the one that is farthest from all that were chosen, the first of
// equally far ones. For one thread.
class FarthestPoints {
 public:
  // `points` holds rows of `n_columns` finite values and outlives this object; `first` is the first choice.
  FarthestPoints(std::span<const float> points, size_t n_columns, size_t first);

  // Chooses further points until there are `n` in all, or as many as there are points.
  void choose(size_t n);

  const std::vector<int64_t>& chosen() const { return chosen_; }

 private:
  float square_between(size_t one, size_t other) const;
  void choose_next();

  std::span<const float> points_;
  size_t n_columns_, next_;
  std::vector<int64_t> chosen_;
  std::vector<float> nearest_;    // square of the distance to the nearest choice; -1 for choices
  std::vector<uint32_t> owners_;  // number of that choice
};

}  // namespace atompack::physics
