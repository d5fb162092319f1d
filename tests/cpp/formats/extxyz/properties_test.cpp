#include "formats/extxyz/properties.h"

#include <gtest/gtest.h>

#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::corrupt;

std::string refused_columns(std::string_view text) {
  return corrupt([&] { parse_properties(text); });
}

TEST(Properties, Refused) {
  EXPECT_EQ(refused_columns(""), "Properties: expected name:type:width for each column, got 1 parts");
  EXPECT_EQ(refused_columns("species:S:1:pos:R:3:"),
            "Properties: expected name:type:width for each column, got 7 parts");
  EXPECT_EQ(refused_columns("species:S:1"), "Properties: expected one column 'pos', got 0");
  EXPECT_EQ(refused_columns("species:S:1:pos:R:3:positions:R:3"), "Properties: expected one column 'pos', got 2");
  EXPECT_EQ(refused_columns("pos:R:3"), "Properties: expected a column 'species' or 'Z', got neither");
  EXPECT_EQ(refused_columns("Z:I:1:numbers:I:1:pos:R:3"), "Properties: two columns give the elements");
  EXPECT_EQ(refused_columns("Z:I:1:pos:R:3:a:R:1:a:I:1"), "Properties: duplicate column 'a'");
  EXPECT_EQ(refused_columns("Z:I:1:pos:R:2"),
            "Properties: column 'pos': expected real of width 3, got real of width 2");
  EXPECT_EQ(refused_columns("Z:R:1:pos:R:3"),
            "Properties: column 'Z': expected integer of width 1, got real of width 1");
  EXPECT_EQ(refused_columns("a:X:1"), "Properties: column 'a': expected type R, I, S or L, got 'X'");
  for (const char* width : {"0", "-1", "x", "", "1.0", "1048577", "99999999999999999999"}) {
    EXPECT_EQ(refused_columns(std::string("a:R:") + width),
              cat("Properties: column 'a': expected a width of 1 to 1048576, got '", width, "'"));
  }
  EXPECT_EQ(refused_columns("a:R:1048576:b:R:1048576"),
            "Properties: expected at most 1048576 words a line, got 2097152");
}

}  // namespace
}  // namespace atompack::extxyz
