#include "physics/farthest_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace atompack::physics {
namespace {

float square(const std::vector<float>& points, size_t columns, size_t one, size_t other) {
  float sum = 0;
  for (size_t column = 0; column < columns; ++column) {
    const float difference = points[one * columns + column] - points[other * columns + column];
    sum += difference * difference;
  }
  return sum;
}

TEST(FarthestPoints, AreThoseOfASlowSearch) {
  std::mt19937 random(1);
  for (const size_t columns : {size_t{1}, size_t{3}, size_t{19}}) {
    // Small whole numbers, so that sums are exact and many distances are equal.
    std::vector<float> points(200 * columns);
    for (float& value : points) value = static_cast<float>(random() % 5);
    FarthestPoints found(points, columns, 7);
    found.choose(20);
    found.choose(500);
    const std::vector<int64_t>& chosen = found.chosen();
    ASSERT_EQ(chosen.size(), 200);
    EXPECT_EQ(chosen[0], 7);
    std::vector<float> nearest(200, 1e9F);
    for (size_t k = 0; k + 1 < chosen.size(); ++k) {
      const auto center = static_cast<size_t>(chosen[k]);
      for (size_t point = 0; point < nearest.size(); ++point) {
        nearest[point] = std::min(nearest[point], square(points, columns, point, center));
      }
      nearest[center] = -1;
      EXPECT_EQ(chosen[k + 1], std::ranges::max_element(nearest) - nearest.begin()) << k;
    }
  }
}

}  // namespace
}  // namespace atompack::physics
