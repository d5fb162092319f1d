#include "formats/extxyz/array.h"

#include <gtest/gtest.h>

namespace atompack::extxyz {
namespace {

TEST(Array, WidensNumbersOnly) {
  Array array;
  array.reset(Kind::flag);
  array.flags = {1, 0};
  array.shape = {2};
  array.widen(Kind::flag);
  EXPECT_EQ(array.kind, Kind::flag);
  array.widen(Kind::integer);
  EXPECT_EQ(array.integers, (std::vector<int64_t>{1, 0}));
  array.widen(Kind::real);
  EXPECT_EQ(array.kind, Kind::real);
  EXPECT_EQ(array.reals, (std::vector<double>{1, 0}));
  EXPECT_EQ(array.size(), 2U);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2}));
  EXPECT_TRUE(array.flags.empty() && array.integers.empty());
}

TEST(Array, FlagsBecomeRealsAtOnce) {
  Array array;
  array.reset(Kind::flag);
  array.flags = {1};
  array.widen(Kind::real);
  EXPECT_EQ(array.reals, std::vector<double>{1});
}

TEST(Array, ResetLeavesNothing) {
  Array array;
  array.reset(Kind::text);
  array.texts = {"a"};
  array.shape = {1};
  array.reset(Kind::real);
  EXPECT_EQ(array.size(), 0U);
  EXPECT_TRUE(array.texts.empty());
  EXPECT_TRUE(array.is_scalar());
}

TEST(Array, TheWiderKindHoldsTheOther) {
  EXPECT_EQ(wider(Kind::flag, Kind::integer), Kind::integer);
  EXPECT_EQ(wider(Kind::real, Kind::integer), Kind::real);
  EXPECT_EQ(wider(Kind::text, Kind::real), Kind::text);
  EXPECT_EQ(name_of(Kind::integer), "integer");
}

}  // namespace
}  // namespace atompack::extxyz
