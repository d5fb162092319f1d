#include "plan/subset_view.h"

#include <gtest/gtest.h>

#include <array>

#include "message_of.h"

namespace atompack::plan {
namespace {

TEST(SubsetView, ReturnsNumbersInTheSource) {
  const std::vector<int64_t> subset{7, 5, 9};
  const SubsetView view(subset, "molecule");
  EXPECT_EQ(view.number(-3), 7);
  std::vector<int64_t> numbers;
  view.append(std::span<const int8_t>(std::array<int8_t, 2>{2, -2}), numbers);
  view.append_masked(std::array{true, false, true}, numbers);
  EXPECT_EQ(numbers, (std::vector<int64_t>{9, 5, 7, 9}));
  EXPECT_EQ(SubsetView(4, "molecule").number(-1), 3);
}

TEST(SubsetView, RefusesOthers) {
  const SubsetView view(3, "dataset");
  std::vector<int64_t> numbers;
  EXPECT_EQ(test::message_of<std::out_of_range>([&] { view.number(3); }),
            "dataset 3 is out of range for a dataset of 3");
  EXPECT_THROW(view.append(std::span<const uint64_t>(std::array{UINT64_MAX}), numbers), std::out_of_range);
  EXPECT_EQ(test::message_of<std::out_of_range>([&] { view.append_masked(std::array{true}, numbers); }),
            "indices: expected a mask of 3 bools, one for each dataset, got 1");
}

}  // namespace
}  // namespace atompack::plan
