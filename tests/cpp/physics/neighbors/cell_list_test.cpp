#include "physics/neighbors/cell_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace atompack::physics {
namespace {

uint64_t number_of(const Boxes& boxes, const Vector3& x) {
  return boxes.share(0, x[0]) + boxes.share(1, x[1]) + boxes.share(2, x[2]);
}

// Things that are within reach of each other along all sides are in boxes of each other's rows; few others are.
TEST(Boxes, RowsHoldAllWithinReach) {
  std::mt19937 random(3);
  for (const Vector3& lengths : {Vector3{3, 3, 3}, {30, 30, 30}, {1e7, 9, 40}, {40, 1e9, 0}, {0, 0, 0}}) {
    const Boxes boxes({{{-5, lengths[0], 2}, {0, lengths[1], 2.5}, {7, lengths[2], 3}}});
    const Vector3 firsts{-5, 0, 7}, reaches{2, 2.5, 3};
    for (int round = 0; round < 2000; ++round) {
      Vector3 a, b;
      bool is_near = true;
      for (size_t d = 0; d < 3; ++d) {
        a[d] = firsts[d] + std::uniform_real_distribution<double>(0, 1)(random) * lengths[d];
        b[d] = a[d] + std::uniform_real_distribution<double>(-1, 1)(random) * reaches[d];
        is_near = is_near && b[d] >= firsts[d] && b[d] <= firsts[d] + lengths[d];
      }
      if (!is_near) continue;
      const uint64_t from = number_of(boxes, a), to = number_of(boxes, b);
      const auto holds = [&](int64_t row) { return to - (from + static_cast<uint64_t>(row)) < Boxes::row_length(); };
      EXPECT_EQ(std::ranges::count_if(boxes.rows(), holds), 1);
    }
  }
}

TEST(Boxes, RowsStayWithinTheNumbers) {
  for (const double length : {0.0, 1.0, 11.0, 1e3, 1e12, 1e300}) {
    const Boxes boxes({{{0, length, 1}, {0, length, 1}, {0, length, 1}}});
    std::set<uint64_t> numbers;
    for (const double x : {-1e9, 0.0, length / 2, length, length + 1e9}) {
      const uint64_t number = number_of(boxes, {x, x, x});
      for (const int64_t row : boxes.rows()) {
        EXPECT_GE(static_cast<int64_t>(number) + row, 0) << length;
        EXPECT_LT(number + static_cast<uint64_t>(row) + Boxes::row_length(), boxes.n_numbers()) << length;
      }
      numbers.insert(number);
    }
    EXPECT_LE(numbers.size(), 3U);  // what lies outside is put into the first and the last box
  }
}

TEST(Boxes, RowsLeaveOutMostOfALargeSpace) {
  const Boxes boxes({{{0, 50, 1}, {0, 50, 1}, {0, 50, 1}}});
  const uint64_t from = number_of(boxes, {25, 25, 25});
  const auto n_held = [&](const Vector3& x) {
    return std::ranges::count_if(boxes.rows(), [&](int64_t row) {
      return number_of(boxes, x) - (from + static_cast<uint64_t>(row)) < Boxes::row_length();
    });
  };
  EXPECT_EQ(n_held({26.1, 25, 25}), 1);
  EXPECT_EQ(n_held({27.1, 25, 25}), 0);
  EXPECT_EQ(n_held({25, 22.9, 25}), 0);
  EXPECT_EQ(n_held({25, 25, 26.2}), 0);  // boxes along the last side are narrow
}

void expect_sorted(std::span<const uint64_t> numbers, uint64_t n_numbers) {
  BoxOrder order;
  order.sort(numbers, n_numbers);
  std::vector<uint64_t> in_order(numbers.size());
  for (size_t thing = 0; thing < numbers.size(); ++thing) in_order.at(order.places()[thing]) = numbers[thing];
  EXPECT_TRUE(std::ranges::is_sorted(in_order));
  for (size_t thing = 1; thing < numbers.size(); ++thing) {
    if (numbers[thing] != numbers[thing - 1]) continue;
    EXPECT_EQ(order.places()[thing], order.places()[thing - 1] + 1);
  }
  for (const uint64_t number : {uint64_t{0}, numbers[0], numbers[0] + 1, n_numbers / 2, n_numbers - 1}) {
    EXPECT_EQ(order.first(number), std::ranges::lower_bound(in_order, number) - in_order.begin()) << number;
  }
}

TEST(BoxOrder, SortsFewNumbersAndMany) {
  std::mt19937_64 random(1);
  for (const uint64_t n_numbers : {uint64_t{7}, uint64_t{4000}, uint64_t{1} << 61}) {
    std::vector<uint64_t> numbers(500);
    for (uint64_t& number : numbers) number = random() % (n_numbers - 1);
    numbers[7] = numbers[8];
    expect_sorted(numbers, n_numbers);
  }
}

}  // namespace
}  // namespace atompack::physics
