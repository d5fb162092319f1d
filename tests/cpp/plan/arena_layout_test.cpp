#include "plan/arena_layout.h"

#include <gtest/gtest.h>

#include <array>

#include "message_of.h"

namespace atompack::plan {
namespace {

TEST(ArenaLayout, OffsetsAreAlignedAndDoNotOverlap) {
  ArenaLayout layout;
  EXPECT_EQ(layout.add(3, 1), 0u);
  EXPECT_EQ(layout.add(0, 8), 64u);
  EXPECT_EQ(layout.add(8, 8), 64u);
  EXPECT_EQ(layout.add(9, 8), 128u);
  EXPECT_EQ(layout.size(), 256u);
}

TEST(ArenaLayout, Tensors) {
  ArenaLayout layout;
  EXPECT_EQ(layout.add(DType::float32, std::array<int64_t, 2>{7, 3}), 0u);
  EXPECT_EQ(layout.size(), 128u);
  layout.add(DType::complex128, {});
  EXPECT_EQ(layout.size(), 192u);
}

TEST(ArenaLayout, OverflowIsAnError) {
  ArenaLayout layout;
  EXPECT_EQ(test::corrupt([&] { layout.add(uint64_t{1} << 62, 8); }),
            "batch size: 4611686018427387904 x 8 overflows 64 bits");
  EXPECT_NE(test::corrupt([&] { layout.add(UINT64_MAX, 1); }), "");
  EXPECT_NE(test::corrupt([&] { layout.add(DType::int8, std::array{int64_t{1} << 62, int64_t{8}}); }), "");
  layout.add(uint64_t{1} << 63, 1);
  EXPECT_NE(test::corrupt([&] { layout.add(uint64_t{1} << 63, 1); }), "");
  EXPECT_EQ(layout.size(), uint64_t{1} << 63);
}

}  // namespace
}  // namespace atompack::plan
