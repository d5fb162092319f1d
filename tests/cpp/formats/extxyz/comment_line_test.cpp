#include "formats/extxyz/comment_line.h"

#include <gtest/gtest.h>

#include <string>

namespace atompack::extxyz {
namespace {

// As "key<text>" each; "key[text]" where it stood in brackets.
std::string parse(std::string_view line) {
  std::string shown;
  for (const Entry& entry : parse_comment_line(line)) {
    if (!shown.empty()) shown += ' ';
    shown += entry.key + (entry.bracketed ? "[" : "<") + entry.text + (entry.bracketed ? "]" : ">");
  }
  return shown;
}

TEST(CommentLine, KeysAndValues) {
  EXPECT_EQ(parse("a=1 b=x"), "a<1> b<x>");
  EXPECT_EQ(parse("  a = 1\tb= x "), "a<1> b<x>");
  EXPECT_EQ(parse("alone a=1 flag"), "alone<T> a<1> flag<T>");
  EXPECT_EQ(parse("a=b=c"), "a<b=c>");
  EXPECT_EQ(parse("a=1 =2"), "a<1=2>");
  EXPECT_EQ(parse("a="), "a<>");
  EXPECT_EQ(parse("a=\"\" b=1"), "a<> b<1>");
  EXPECT_EQ(parse("a= \t x y"), "a<x> y<T>");
}

TEST(CommentLine, AnEmptyValueEndsBeforeTheNextKey) {
  EXPECT_EQ(parse("a= b=1"), "a<> b<1>");
  EXPECT_EQ(parse("a = b = \"1 2\" c"), "a<> b<1 2> c<T>");
  EXPECT_EQ(parse("a=x== b=1"), "a<x==> b<1>");
  EXPECT_EQ(parse("a= b= c="), "a<> b<> c<>");
}

TEST(CommentLine, QuotesAndBrackets) {
  EXPECT_EQ(parse("a=\"1 2\" b='3 4'"), "a<1 2> b<3 4>");
  EXPECT_EQ(parse("a={1 2} b=[3 4]"), "a[1 2] b[3 4]");
  EXPECT_EQ(parse("a=[[1,2],[3,4]]"), "a[[1,2],[3,4]]");
  EXPECT_EQ(parse("a=[{1} ]"), "a[{1} ]");
  EXPECT_EQ(parse("a=x[1 2]y\"z w\""), "a<x1 2yz w>");
  EXPECT_EQ(parse("\"my key\"=1 [k]=2"), "my key<1> k<2>");
  EXPECT_EQ(parse("a='[1]' b=\"it's\""), "a<[1]> b<it's>");
  EXPECT_EQ(parse("a=\"=\" \"b=\"=1"), "a<=> b=<1>");
}

TEST(CommentLine, Escapes) {
  EXPECT_EQ(parse(R"(a="x\"y\\" b=1)"), "a<x\"y\\> b<1>");
  EXPECT_EQ(parse(R"(a=x\ y k\=l=2)"), "a<x y> k=l<2>");
  EXPECT_EQ(parse(R"(a=[\]\[])"), "a[][]");
  EXPECT_EQ(parse(R"(a=\n)"), "a<n>");
}

TEST(CommentLine, WordsWithoutKeysAreARemark) {
  EXPECT_EQ(parse(""), "");
  EXPECT_EQ(parse("Cubic bulk silicon cell"), "");
  EXPECT_EQ(parse("It's = a remark"), "");
  EXPECT_EQ(parse("5 \\"), "");
  EXPECT_EQ(parse("=5"), "");
  EXPECT_EQ(parse("\xFF"), "");
}

}  // namespace
}  // namespace atompack::extxyz
