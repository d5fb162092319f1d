#include "base/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

#include "message_of.h"

namespace atompack {
namespace {

using test::corrupt;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedMul, MultipliesUpToTheLastBit) {
  EXPECT_EQ(checked_mul(0, kMax, "size"), 0U);
  EXPECT_EQ(checked_mul(kMax, 1, "size"), kMax);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, "size"), 0xFFFFFFFF00000000U);
}

TEST(CheckedMul, RefusesAWrap) {
  EXPECT_EQ(corrupt([] { checked_mul(uint64_t{1} << 32, uint64_t{1} << 32, "tensor size"); }),
            "tensor size: 4294967296 x 4294967296 overflows 64 bits");
}

TEST(CheckedAdd, AddsUpToTheLastBit) {
  EXPECT_EQ(checked_add(kMax, 0, "size"), kMax);
  EXPECT_EQ(checked_add(kMax - 5, 5, "size"), kMax);
}

TEST(CheckedAdd, RefusesAWrap) {
  EXPECT_EQ(corrupt([] { checked_add(kMax, 1, "end"); }), "end: 18446744073709551615 + 1 overflows 64 bits");
}

}  // namespace
}  // namespace atompack
