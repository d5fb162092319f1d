#include "plan/random_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.h"

namespace atompack::plan {
namespace {

constexpr RandomOrder::Keys kKeys{11, 22, 33, 44, 55, 66, 77, 88};

std::vector<int64_t> whole(const RandomOrder& order, size_t n, unsigned n_threads) {
  std::vector<int64_t> positions(n), numbers(n);
  std::iota(positions.begin(), positions.end(), 0);
  order.at(positions, numbers, n_threads);
  return numbers;
}

TEST(RandomOrder, HasEachNumberOnce) {
  constexpr struct {
    uint64_t n, n_left, n_right;
  } kSizes[]{{1, 1, 1}, {7, 3, 3}, {9, 3, 3}, {300'000, 548, 548}, {300'000, 1000, 300}};
  for (const auto& [n, n_left, n_right] : kSizes) {
    const RandomOrder order(n, n_left, n_right, kKeys);
    std::vector<int64_t> numbers = whole(order, n, 1), last(n / 2);
    order.from(static_cast<int64_t>(n - n / 2), last, 2);
    EXPECT_TRUE(std::ranges::equal(last, std::span(numbers).last(n / 2)));
    EXPECT_EQ(numbers, whole(order, n, 3)) << n;
    std::ranges::sort(numbers);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(numbers[i], static_cast<int64_t>(i));
  }
}

TEST(RandomOrder, ReachesTheLastOfManyNumbers) {
  constexpr int64_t kMany = (int64_t{1} << 62) - 1;
  const RandomOrder order(kMany, uint64_t{1} << 31, uint64_t{1} << 31, kKeys);
  const std::vector<int64_t> positions{0, kMany / 2, kMany - 1};
  std::vector<int64_t> numbers(3);
  order.at(positions, numbers, 1);
  for (const int64_t number : numbers) EXPECT_TRUE(number >= 0 && number < kMany);
}

// As every processor computes them, whatever lanes it has: by arithmetic of Python.
TEST(RandomOrder, IsTheSameEverywhere) {
  constexpr struct {
    uint64_t n, n_left, n_right, sum;
  } kOrders[]{{100'000'000, 10'000, 10'000, 16194540917551092333U},
              {(uint64_t{1} << 62) - 1, uint64_t{1} << 31, uint64_t{1} << 31, 9510681639623341400U}};
  for (const auto& [n, n_left, n_right, expected] : kOrders) {
    std::vector<int64_t> numbers(1000);
    RandomOrder(n, n_left, n_right, kKeys).from(static_cast<int64_t>(n - 1000), numbers, 1);
    uint64_t sum = 0;
    for (const int64_t number : numbers) sum = 31 * sum + static_cast<uint64_t>(number);
    EXPECT_EQ(sum, expected) << n;
  }
}

TEST(RandomOrder, RefusesWhatIsOutOfRange) {
  const RandomOrder order(10, 4, 3, kKeys);
  for (const int64_t position : {int64_t{-1}, int64_t{10}}) {
    std::vector<int64_t> number(1);
    EXPECT_THROW(order.at(std::vector{position}, number, 1), FieldError);
  }
  std::vector<int64_t> numbers(3);
  EXPECT_THROW(order.from(8, numbers, 1), FieldError);
  EXPECT_THROW(order.from(-1, numbers, 1), FieldError);
  EXPECT_THROW(RandomOrder(10, 3, 3, kKeys), FieldError);
  EXPECT_THROW(RandomOrder(10, 0, 3, kKeys), FieldError);
}

}  // namespace
}  // namespace atompack::plan
