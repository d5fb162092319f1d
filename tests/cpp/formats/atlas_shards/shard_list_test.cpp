#include "formats/atlas_shards/shard_list.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace atompack::atlas_shards {
namespace {

using Names = std::vector<std::string>;

TEST(ShardNames, SuccessorsAreLongerOnlyAfterNines) {
  EXPECT_EQ(successor_of("0"), "1");
  EXPECT_EQ(successor_of("09"), "10");
  EXPECT_EQ(successor_of("9"), "90");
  EXPECT_EQ(successor_of("99"), "9900");
  EXPECT_EQ(successor_of("a9"), "a90");
  EXPECT_EQ(successor_of("part"), "part0");
  EXPECT_EQ(successor_of("9a"), "9a0");
}

TEST(ShardNames, AreInByteOrder) {
  for (const size_t width : {1, 2, 3}) {
    const Names names = numbered_names(20'000, width);
    EXPECT_TRUE(std::ranges::is_sorted(names));
    EXPECT_TRUE(std::ranges::adjacent_find(names) == names.end());
    EXPECT_LE(names.back().size(), 16U);
  }
}

TEST(ShardNames, HaveTheDigitsOfTheLastNumber) {
  EXPECT_EQ(usual_width(0), 1U);
  EXPECT_EQ(usual_width(10), 1U);
  EXPECT_EQ(usual_width(11), 2U);
  EXPECT_EQ(numbered_names(3, 2), (Names{"00", "01", "02"}));
}

TEST(ShardNames, AreFoundFromSomeOfThem) {
  EXPECT_EQ(original_names(3, Names{"1"}), (Names{"0", "1", "2"}));
  EXPECT_EQ(original_names(12, Names{"00", "11"}), numbered_names(12, 2));
  EXPECT_EQ(original_names(12, Names{"0", "91"}), numbered_names(12, 1));
  EXPECT_EQ(original_names(12, Names{"0", "11"}), std::nullopt);
  EXPECT_EQ(original_names(2, Names{"2"}), std::nullopt);
}

}  // namespace
}  // namespace atompack::atlas_shards
