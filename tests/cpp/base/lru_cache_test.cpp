#include "base/lru_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace atompack {
namespace {

TEST(LruCache, DropsAsManyAsItTakes) {
  LruCache<std::string, int> recent(10);
  for (const char* const key : {"a", "b", "c"}) recent.keep(key, std::make_shared<int>(1), 3);
  recent.keep("d", std::make_shared<int>(2), 7);
  EXPECT_FALSE(recent.find("a"));
  EXPECT_FALSE(recent.find("b"));
  EXPECT_TRUE(recent.find("c"));
  EXPECT_EQ(*recent.find("d"), 2);
  EXPECT_EQ(recent.used(), 10U);
  recent.keep("e", std::make_shared<int>(3), 10);
  EXPECT_FALSE(recent.find("c"));
  EXPECT_FALSE(recent.find("d"));
  EXPECT_EQ(recent.used(), 10U);
}

TEST(LruCache, WhatCostsNothingIsKeptBesideWhatFillsIt) {
  LruCache<int, int> recent(1);
  recent.keep(1, std::make_shared<int>(1), 1);
  recent.keep(2, std::make_shared<int>(2), 0);
  EXPECT_TRUE(recent.find(1));
  EXPECT_TRUE(recent.find(2));
}

TEST(LruCache, DropsWhatItIsAskedTo) {
  LruCache<int, int> recent(10);
  recent.keep(1, std::make_shared<int>(1), 4);
  recent.keep(2, std::make_shared<int>(2), 5);
  const auto kept = recent.find(1);
  recent.drop(1);
  recent.drop(3);
  EXPECT_FALSE(recent.find(1));
  EXPECT_TRUE(recent.find(2));
  EXPECT_EQ(recent.used(), 5U);
  EXPECT_EQ(*kept, 1);
}

}  // namespace
}  // namespace atompack
