#include "formats/extxyz/json.h"

#include <gtest/gtest.h>

#include "formats/extxyz/show.h"

namespace atompack::extxyz {
namespace {

std::string json(std::string_view text) {
  Array array;
  return parse_json(text, array) ? test::show(array) : "none";
}

std::string nested(std::string_view text) {
  Array array;
  return parse_nested(text, array) ? test::show(array) : "none";
}

TEST(Json, Scalars) {
  EXPECT_EQ(json("5"), "integer 5");
  EXPECT_EQ(json(" -1.5 "), "real -1.5");
  EXPECT_EQ(json("true"), "flag T");
  EXPECT_EQ(json("NaN"), "real nan");
  EXPECT_EQ(json("-Infinity"), "real -inf");
  EXPECT_EQ(json("null"), "none");
  EXPECT_EQ(json("T"), "none");
  EXPECT_EQ(json(""), "none");
}

TEST(Json, ListsOfOneShape) {
  EXPECT_EQ(json("[]"), "real(0)");
  EXPECT_EQ(json("[1]"), "integer(1) 1");
  EXPECT_EQ(json("[[1, 2, 3], [4, 5, 6]]"), "integer(2,3) 1 2 3 4 5 6");
  EXPECT_EQ(json("[[[1]], [[2]]]"), "integer(2,1,1) 1 2");
  EXPECT_EQ(json("[[], []]"), "real(2,0)");
  EXPECT_EQ(json("[ 1 , 2.5 ]"), "real(2) 1 2.5");
  EXPECT_EQ(json("[true, 2]"), "integer(2) 1 2");
  EXPECT_EQ(json("[true, 2, 0.5]"), "real(3) 1 2 0.5");
  EXPECT_EQ(json("[0.5, true]"), "real(2) 0.5 1");
}

TEST(Json, WhatIsNoListOfNumbers) {
  for (const char* text : {"[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] 2", "[[1], [2, 3]]", "[1, [2]]",
                           "[[1], 2]", "[[], 1]", "[[[]], []]", "[\"a\"]", "[null]", "{\"a\": 1}", "[1,,2]", "[{1}]"}) {
    EXPECT_EQ(json(text), "none") << text;
  }
}

TEST(Json, DepthIsBounded) {
  EXPECT_NE(json(std::string(16, '[') + "1" + std::string(16, ']')), "none");
  EXPECT_EQ(json(std::string(17, '[') + "1" + std::string(17, ']')), "none");
  EXPECT_EQ(json(std::string(1 << 20, '[')), "none");
}

TEST(Json, Strings) {
  EXPECT_EQ(json("\"a b\""), "text 'a b'");
  EXPECT_EQ(json("\"\""), "text ''");
  EXPECT_EQ(json(R"("\"\\\/\b\f\n\r\t")"), "text '\"\\/\b\f\n\r\t'");
  EXPECT_EQ(json(R"("\u0041\u00e9\u4e2d\uD83D\uDE00")"), "text 'A\u00e9\u4e2d\U0001F600'");
  for (const char* text : {"\"", "\"a", "\"a\"b", R"("\x")", R"("\)", R"("\u12")", R"("\u12g4")", R"("\uD83D")",
                           R"("\uDE00")", R"("\uD83Dx")", R"("\uD83D\u0041")", R"("\u+123")", "\"\n\""}) {
    EXPECT_EQ(json(text), "none") << text;
  }
}

TEST(Json, WrittenStringsAreReadBack) {
  std::string text;
  for (int code = 0; code < 128; ++code) text += static_cast<char>(code);
  Array array;
  ASSERT_TRUE(parse_json(json_string(text), array));
  EXPECT_EQ(array.texts[0], text);
}

TEST(Nested, TakesSpacesBracesAndFlags) {
  EXPECT_EQ(nested("[[1,2],[3,4]]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(nested("[{1 2} {3 4}]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(nested("[[1 2][3 4]]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(nested("[[T], [F]]"), "flag(2,1) T F");
  EXPECT_EQ(nested("[{1]}"), "none");
  EXPECT_EQ(nested("[[1],[x]]"), "none");
  EXPECT_EQ(nested("[[1"), "none");
}

}  // namespace
}  // namespace atompack::extxyz
