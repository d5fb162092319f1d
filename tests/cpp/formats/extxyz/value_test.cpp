#include "formats/extxyz/value.h"

#include <gtest/gtest.h>

#include "formats/extxyz/show.h"

namespace atompack::extxyz {
namespace {

std::string infer(const std::string& text, const std::string& key = "key", bool bracketed = false) {
  Array array;
  infer_value({key, text, 0, bracketed}, array);
  return test::show(array);
}

TEST(Value, IsOfTheNarrowestKindThatHoldsAllWords) {
  EXPECT_EQ(infer("5"), "integer 5");
  EXPECT_EQ(infer("5.0"), "real 5");
  EXPECT_EQ(infer("T"), "flag T");
  EXPECT_EQ(infer("abc"), "text 'abc'");
  EXPECT_EQ(infer("1 2"), "integer(2) 1 2");
  EXPECT_EQ(infer("1, 2.5"), "real(2) 1 2.5");
  EXPECT_EQ(infer("T F"), "flag(2) T F");
  EXPECT_EQ(infer("1 T"), "text '1 T'");
  EXPECT_EQ(infer("9223372036854775808"), "real 9.22337e+18");
  EXPECT_EQ(infer(" 5 "), "integer 5");
}

TEST(Value, WithoutWordsItIsText) {
  EXPECT_EQ(infer(""), "text ''");
  EXPECT_EQ(infer(" , "), "text ' , '");
}

TEST(Value, AUidIsText) {
  EXPECT_EQ(infer("5", "uid"), "text '5'");
  EXPECT_EQ(infer("5", "UiD"), "text '5'");
  EXPECT_EQ(infer("5", "uids"), "integer 5");
}

TEST(Value, ListsInBracketsOnly) {
  EXPECT_EQ(infer("[1,2],[3,4]", "key", true), "integer(2,2) 1 2 3 4");
  EXPECT_EQ(infer("[1,2],[3,4]"), "text '[1,2],[3,4]'");
  EXPECT_EQ(infer("1,2", "key", true), "integer(2) 1 2");
}

TEST(Value, JsonBehindItsMark) {
  EXPECT_EQ(infer("_JSON [[1]]"), "integer(1,1) 1");
  EXPECT_EQ(infer("_JSON \"5\""), "text '5'");
  EXPECT_EQ(infer("_JSON {}"), "text '{}'");
  EXPECT_EQ(infer("_JSON  [\"a\", {}] "), "text '[\"a\", {}]'");
  EXPECT_EQ(infer("_JSON {oops"), "text '_JSON {oops'");
  EXPECT_EQ(infer("_JSON null"), "text '_JSON null'");
  EXPECT_EQ(infer("_JSON"), "text '_JSON'");
}

TEST(Value, AnyTextIsReadBack) {
  for (const std::string text :
       {"abc",  "a b",  "",    " ", "5",       "1.5",         "T",        "nan", "1 2", "a\"b",   "a'b",
        "a\\b", "a\nb", "[1]", "{", "_JSON 5", "_JSON \"x\"", "_JSON {}", "a=b", ",",   "\u00e9", "\x7f"}) {
    for (const std::string key : {"key", "uid"}) {
      std::string line = key + "=";
      append_text_value(key, text, line);
      const std::vector<Entry> entries = parse_comment_line(line);
      ASSERT_EQ(entries.size(), 1U) << line;
      Array array;
      infer_value(entries[0], array);
      EXPECT_EQ(test::show(array), "text '" + text + "'") << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace atompack::extxyz
