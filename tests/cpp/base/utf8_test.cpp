#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace atompack {
namespace {

bool is_utf8(std::string_view text) { return atompack::is_utf8(std::as_bytes(std::span(text))); }

// The encoding by its definition, also of what must not be encoded.
std::string encoded(uint32_t code, int length) {
  if (length == 1) return {static_cast<char>(code)};
  const uint32_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
  std::string text(static_cast<size_t>(length), '\0');
  for (int i = length - 1; i > 0; --i, code >>= 6)
    text[static_cast<size_t>(i)] = static_cast<char>(0x80 | (code & 0x3F));
  text[0] = static_cast<char>(marks[length] | code);
  return text;
}

int shortest_length(uint32_t code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

TEST(Utf8, AcceptsExactlyTheScalarValuesInTheirShortestForm) {
  for (uint32_t code = 0; code < 0x200000; ++code) {
    const bool scalar = code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
    const int shortest = shortest_length(code);
    ASSERT_EQ(is_utf8(encoded(code, shortest)), scalar) << std::hex << code;
    for (int longer = shortest + 1; longer <= 4; ++longer) {
      ASSERT_FALSE(is_utf8(encoded(code, longer))) << std::hex << code << " in " << longer << " bytes";
    }
  }
}

TEST(Utf8, SurrogatesWhereTheyAreAllowed) {
  const auto both = [](std::string_view bytes) {
    const Bytes text = atompack::as_bytes(bytes);
    return std::pair(atompack::is_utf8(text), is_utf8_or_surrogates(text));
  };
  EXPECT_EQ(both("\xed\xa0\x80"), std::pair(false, true));
  EXPECT_EQ(both("a\xed\xbf\xbfz"), std::pair(false, true));
  EXPECT_EQ(both("\xed\x9f\xbf"), std::pair(true, true));
  EXPECT_EQ(both("\xed\xa0"), std::pair(false, false));
  EXPECT_EQ(both("\xed\xa0z"), std::pair(false, false));
  EXPECT_EQ(both("\xff"), std::pair(false, false));
}

TEST(Utf8, AcceptsNothingAndNul) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0\xC3\xA9z", 5)));
}

TEST(Utf8, RefusesLoneAndMissingContinuations) {
  EXPECT_FALSE(is_utf8("\x80"));
  EXPECT_FALSE(is_utf8("a\xBF"));
  EXPECT_FALSE(is_utf8("\xC3"));
  EXPECT_FALSE(is_utf8("\xE2\x82"));
  EXPECT_FALSE(is_utf8("\xF0\x9F\x98"));
  EXPECT_FALSE(is_utf8("\xC3z"));
  EXPECT_FALSE(is_utf8("\xE2\x82z"));
  EXPECT_FALSE(is_utf8("\xC3\xA9\xA9"));
}

TEST(Utf8, RefusesBytesThatStartNothing) {
  for (const int lead : {0xC0, 0xC1, 0xF5, 0xF8, 0xFC, 0xFE, 0xFF}) {
    EXPECT_FALSE(is_utf8(std::string{static_cast<char>(lead), '\x80', '\x80', '\x80'})) << lead;
  }
}

}  // namespace
}  // namespace atompack
