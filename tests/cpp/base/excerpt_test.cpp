#include "base/excerpt.h"

#include <gtest/gtest.h>

namespace atompack {
namespace {

TEST(Excerpt, IsShortAndOnOneLine) {
  EXPECT_EQ(excerpt(""), "''");
  EXPECT_EQ(excerpt("a b"), "'a b'");
  EXPECT_EQ(excerpt("\u00e9"), "'\u00e9'");
  EXPECT_EQ(excerpt(std::string("a\0\n\x7F", 4)), "'a\\x00\\x0a\\x7f'");
  EXPECT_EQ(excerpt("a\xFF"), "'a\\xff'");
  EXPECT_EQ(excerpt(std::string(40, 'x')), "'" + std::string(40, 'x') + "'");
  EXPECT_EQ(excerpt(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
}

}  // namespace
}  // namespace atompack
