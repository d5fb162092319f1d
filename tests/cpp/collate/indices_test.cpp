#include "collate/indices.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace atompack::collate {
namespace {

using Numbers = std::vector<int64_t>;

TEST(Indices, OfEveryType) {
  const Numbers subset{10, 11, 12, 13};
  const plan::SubsetView view(subset, "molecule");
  for (const at::ScalarType type : {at::kLong, at::kInt, at::kShort, at::kChar}) {
    EXPECT_EQ(numbers_of(view, at::tensor({-1, 0, 2}, type)), (Numbers{13, 10, 12}));
  }
  for (const at::ScalarType type : {at::kByte, at::kUInt16, at::kUInt32, at::kUInt64}) {
    EXPECT_EQ(numbers_of(view, at::tensor({3, 0}, at::kLong).to(type)), (Numbers{13, 10}));
  }
  EXPECT_EQ(numbers_of(view, at::arange(4, at::kLong).flip(0).slice(0, 0, 4, 2)), (Numbers{13, 11}));
  EXPECT_EQ(numbers_of(view, at::empty({0}, at::kFloat)), Numbers());
  EXPECT_EQ(number_of(view, at::scalar_tensor(-2, at::kInt)), 12);
}

TEST(Indices, OfMasks) {
  const plan::SubsetView view(3, "molecule");
  EXPECT_EQ(numbers_of(view, at::tensor({1, 0, 1}, at::kLong).to(at::kBool)), (Numbers{0, 2}));
  EXPECT_EQ(test::message_of<std::out_of_range>([&] { numbers_of(view, at::ones({4}, at::kBool)); }),
            "indices: expected a mask of 3 bools, one for each molecule, got 4");
}

TEST(Indices, RefusesOthers) {
  const plan::SubsetView view(3, "example");
  const auto refused = [&](const at::Tensor& indices) {
    return test::message_of<TypeError>([&] {
      check_has_values(indices);
      numbers_of(view, indices);
    });
  };
  EXPECT_EQ(refused(at::ones({2}, at::kFloat)), "indices: expected integers, got a tensor of Float");
  EXPECT_EQ(refused(at::ones({2, 2}, at::kLong)),
            "indices: expected integers, got a tensor of shape [2, 2] (one dimension is)");
  EXPECT_EQ(refused(at::ones({2}, at::kLong).to(at::kMeta)),
            "indices: expected integers, got a meta tensor, which has no values");
  EXPECT_EQ(refused(at::ones({2}, at::kLong).to_sparse()), "indices: expected integers, got a tensor of layout Sparse");
  EXPECT_EQ(test::message_of<std::out_of_range>([&] { numbers_of(view, at::tensor({0, -4}, at::kLong)); }),
            "example -4 is out of range for a dataset of 3");
  EXPECT_EQ(
      test::message_of<std::out_of_range>([&] { numbers_of(view, at::full({1}, -1, at::kLong).view(at::kUInt64)); }),
      "example 18446744073709551615 is out of range for a dataset of 3");
}

}  // namespace
}  // namespace atompack::collate
