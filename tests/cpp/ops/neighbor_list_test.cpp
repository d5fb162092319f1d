#include "ops/neighbor_list.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "message_of.h"

namespace atompack::ops {
namespace {

using Pair = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;

StructureTensors random_structures() {
  const at::Tensor ptr = at::tensor({0, 5, 5, 12}, at::kLong);
  at::manual_seed(1);
  const at::Tensor cell = (at::rand({3, 3, 3}, at::kDouble) - 0.5) + 3 * at::eye(3, at::kDouble);
  return {.positions = at::rand({12, 3}, at::kDouble) * 5,
          .cell = cell,
          .periodic = at::tensor({1, 1, 0, 1, 1, 1, 1, 0, 1}, at::kLong).to(at::kBool).view({3, 3}),
          .ptr = ptr};
}

// Every pair of every image within three cells.
std::vector<Pair> slow_pairs(const StructureTensors& given, double cutoff) {
  std::vector<Pair> pairs;
  const auto ptr = given.ptr.accessor<int64_t, 1>();
  const auto periodic = given.periodic->accessor<bool, 2>();
  for (int64_t s = 0; s + 1 < given.ptr.size(0); ++s) {
    int64_t most[3];
    for (int64_t axis = 0; axis < 3; ++axis) most[axis] = periodic[s][axis] ? 3 : 0;
    for (int64_t a = -most[0]; a <= most[0]; ++a) {
      for (int64_t b = -most[1]; b <= most[1]; ++b) {
        for (int64_t c = -most[2]; c <= most[2]; ++c) {
          const at::Tensor offset = at::tensor({a, b, c}, at::kDouble).matmul((*given.cell)[s]);
          for (int64_t i = ptr[s]; i < ptr[s + 1]; ++i) {
            for (int64_t j = ptr[s]; j < ptr[s + 1]; ++j) {
              if (i == j && a == 0 && b == 0 && c == 0) continue;
              const at::Tensor vector = given.positions[j] - given.positions[i] + offset;
              if (vector.norm().item<double>() < cutoff) pairs.emplace_back(i, j, a, b, c);
            }
          }
        }
      }
    }
  }
  std::ranges::sort(pairs);
  return pairs;
}

TEST(NeighborList, EqualsASlowSearchOnAnyThreads) {
  const StructureTensors given = random_structures();
  const std::vector<Pair> expected = slow_pairs(given, 2.2);
  ASSERT_GT(expected.size(), 20U);
  const int n_threads = at::get_num_threads();
  for (const int threads : {1, 4}) {
    at::set_num_threads(threads);
    const PairTensors found = find_neighbors(given, {.cutoff = 2.2});
    std::vector<Pair> pairs;
    const auto index = found.index.accessor<int64_t, 2>();
    const at::Tensor shifts = found.shift.to(at::kLong);
    const auto shift = shifts.accessor<int64_t, 2>();
    for (int64_t e = 0; e < found.index.size(1); ++e) {
      pairs.emplace_back(index[0][e], index[1][e], shift[e][0], shift[e][1], shift[e][2]);
    }
    EXPECT_TRUE(std::ranges::is_sorted(pairs, {}, [](const Pair& pair) { return std::get<0>(pair); }));
    std::ranges::sort(pairs);
    EXPECT_EQ(pairs, expected);
  }
  at::set_num_threads(n_threads);
}

TEST(NeighborList, ErrorsNameTheStructure) {
  StructureTensors given = random_structures();
  given.positions = given.positions.clone();
  given.positions[7][1] = NAN;
  const std::string error = test::message_of<FieldError>([&] { find_neighbors(given, {.cutoff = 2}); });
  EXPECT_NE(error.find("molecule 2"), std::string::npos) << error;
  given.ptr = at::tensor({0, 5, 11}, at::kLong);
  EXPECT_THROW(find_neighbors(given, {.cutoff = 2}), FieldError);
}

}  // namespace
}  // namespace atompack::ops
