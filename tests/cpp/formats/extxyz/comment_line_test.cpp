#include "formats/extxyz/comment_line.h"

#include <gtest/gtest.h>

#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::corrupt;

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

TEST(CommentLine, ManyKeys) {
  std::string words, keys;
  for (int i = 0; i < 70'000; ++i) words += cat("w", i, ' '), keys += cat("k", i, "=1 ");
  EXPECT_EQ(parse(words), "");
  EXPECT_EQ(corrupt([&] { parse(keys); }).substr(0, 48), "comment line: expected at most 65536 keys, got m");
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

TEST(CommentLine, RepeatedKeys) {
  EXPECT_EQ(parse("fs a=1 fs a=1 b=2"), "fs<T> a<1> b<2>");
  EXPECT_EQ(corrupt([] { parse("a=1 b=2 a=3"); }), "comment line: duplicate key (field 'a', offset 8)");
}

TEST(CommentLine, RefusesWhatHasNoEnd) {
  EXPECT_EQ(corrupt([] { parse("a=1 b=\"x"); }), "comment line: expected a closing \", got none (offset 6)");
  EXPECT_EQ(corrupt([] { parse("a=[1,[2]"); }), "comment line: expected a closing ], got none (offset 2)");
  EXPECT_EQ(corrupt([] { parse("'a=1 b=2' c=3 'd"); }), "comment line: expected a closing ', got none (offset 14)");
  EXPECT_EQ(corrupt([] { parse("a=\"\\"); }), "comment line: expected a character after '\\', got none (offset 3)");
  EXPECT_EQ(corrupt([] { parse("=5 a=1"); }), "comment line: expected a key before '=', got none (offset 0)");
}

TEST(CommentLine, IsUtf8) {
  EXPECT_EQ(parse("\xC3\xA9=\xC3\xA9"), "\xC3\xA9<\xC3\xA9>");
  EXPECT_EQ(corrupt([] { parse("a=\xFF"); }), "comment line: expected UTF-8, got other bytes (offset 0)");
}

TEST(CommentLine, TellsWhereEntriesBegin) {
  const std::vector<Entry> entries = parse_comment_line("a=1  \"b\"=2");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].offset, 0U);
  EXPECT_EQ(entries[1].offset, 5U);
}

TEST(CommentLine, QuotedTextIsReadBack) {
  for (const std::string text : {"a", "a b", "", "\"", "'", "\\", "[", "a=b", "\u00e9"}) {
    std::string line;
    append_quoted(text, line);
    line += "=";
    append_quoted(text, line);
    if (text.empty()) continue;  // a key of nothing is none
    const std::vector<Entry> entries = parse_comment_line(line);
    ASSERT_EQ(entries.size(), 1U) << line;
    EXPECT_EQ(entries[0].key, text);
    EXPECT_EQ(entries[0].text, text);
  }
}

}  // namespace
}  // namespace atompack::extxyz
