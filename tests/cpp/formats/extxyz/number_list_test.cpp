#include "formats/extxyz/number_list.h"

#include <gtest/gtest.h>

#include "formats/extxyz/show.h"

namespace atompack::extxyz {
namespace {

std::string strict(std::string_view text) {
  Array array;
  return parse_number_list(text, ListStyle::json, array) ? test::show(array) : "none";
}

std::string loose(std::string_view text) {
  Array array;
  return parse_number_list(text, ListStyle::loose, array) ? test::show(array) : "none";
}

TEST(NumberList, Scalars) {
  EXPECT_EQ(strict("5"), "integer 5");
  EXPECT_EQ(strict(" -1.5 "), "real -1.5");
  EXPECT_EQ(strict("true"), "flag T");
  EXPECT_EQ(strict("NaN"), "real nan");
  EXPECT_EQ(strict("-Infinity"), "real -inf");
  EXPECT_EQ(strict("null"), "none");
  EXPECT_EQ(strict("T"), "none");
  EXPECT_EQ(strict(""), "none");
}

TEST(NumberList, OfOneShape) {
  EXPECT_EQ(strict("[]"), "real(0)");
  EXPECT_EQ(strict("[1]"), "integer(1) 1");
  EXPECT_EQ(strict("[[1, 2, 3], [4, 5, 6]]"), "integer(2,3) 1 2 3 4 5 6");
  EXPECT_EQ(strict("[[[1]], [[2]]]"), "integer(2,1,1) 1 2");
  EXPECT_EQ(strict("[[], []]"), "real(2,0)");
  EXPECT_EQ(strict("[ 1 , 2.5 ]"), "real(2) 1 2.5");
  EXPECT_EQ(strict("[true, 2]"), "integer(2) 1 2");
  EXPECT_EQ(strict("[true, 2, 0.5]"), "real(3) 1 2 0.5");
  EXPECT_EQ(strict("[0.5, true]"), "real(2) 0.5 1");
}

TEST(NumberList, WhatIsNone) {
  for (const char* text : {"[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] 2", "[[1], [2, 3]]", "[1, [2]]",
                           "[[1], 2]", "[[], 1]", "[[[]], []]", "[\"a\"]", "[null]", "{\"a\": 1}", "[1,,2]", "[{1}]"}) {
    EXPECT_EQ(strict(text), "none") << text;
  }
}

TEST(NumberList, DepthIsBounded) {
  EXPECT_NE(strict(std::string(16, '[') + "1" + std::string(16, ']')), "none");
  EXPECT_EQ(strict(std::string(17, '[') + "1" + std::string(17, ']')), "none");
  EXPECT_EQ(strict(std::string(1 << 20, '[')), "none");
}

TEST(NumberList, LooseOnesTakeSpacesBracesAndFlags) {
  EXPECT_EQ(loose("[[1,2],[3,4]]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(loose("[{1 2} {3 4}]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(loose("[[1 2][3 4]]"), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(loose("[[T], [F]]"), "flag(2,1) T F");
  EXPECT_EQ(loose("[{1]}"), "none");
  EXPECT_EQ(loose("[[1],[x]]"), "none");
  EXPECT_EQ(loose("[[1"), "none");
}

}  // namespace
}  // namespace atompack::extxyz
