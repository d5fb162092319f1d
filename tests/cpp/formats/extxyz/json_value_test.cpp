#include "formats/extxyz/json_value.h"

#include <gtest/gtest.h>

#include "formats/extxyz/show.h"

namespace atompack::extxyz {
namespace {

std::string json(std::string_view text) {
  Array array;
  return parse_json(text, array) ? test::show(array) : "none";
}

TEST(JsonValue, Numbers) {
  EXPECT_EQ(json(" 5 "), "integer 5");
  EXPECT_EQ(json("[[1, 2, 3], [4, 5, 6]]"), "integer(2,3) 1 2 3 4 5 6");
  EXPECT_EQ(json("[\"a\"]"), "none");
}

TEST(JsonValue, Strings) {
  EXPECT_EQ(json("\"a b\""), "text 'a b'");
  EXPECT_EQ(json("\"\""), "text ''");
  EXPECT_EQ(json(R"("\"\\\/\b\f\n\r\t")"), "text '\"\\/\b\f\n\r\t'");
  EXPECT_EQ(json(R"("\u0041\u00e9\u4e2d\uD83D\uDE00")"), "text 'A\u00e9\u4e2d\U0001F600'");
  for (const char* text : {"\"", "\"a", "\"a\"b", R"("\x")", R"("\)", R"("\u12")", R"("\u12g4")", R"("\uD83D")",
                           R"("\uDE00")", R"("\uD83Dx")", R"("\uD83D\u0041")", R"("\u+123")", "\"\n\""}) {
    EXPECT_EQ(json(text), "none") << text;
  }
}

TEST(JsonValue, WrittenStringsAreReadBack) {
  std::string text;
  for (int code = 0; code < 128; ++code) text += static_cast<char>(code);
  Array array;
  ASSERT_TRUE(parse_json(json_string(text), array));
  EXPECT_EQ(array.texts[0], text);
}

}  // namespace
}  // namespace atompack::extxyz
