#include "model/element.h"

#include <gtest/gtest.h>

#include <string>

namespace atompack {
namespace {

TEST(Element, EverySymbolHasItsNumber) {
  for (int z = 0; z <= kLastElement; ++z) EXPECT_EQ(atomic_number(symbol_of(static_cast<uint8_t>(z))), z);
  EXPECT_EQ(symbol_of(0), "X");
  EXPECT_EQ(symbol_of(26), "Fe");
  EXPECT_EQ(symbol_of(118), "Og");
}

TEST(Element, LettersOfAnyCase) {
  EXPECT_EQ(atomic_number("FE"), 26);
  EXPECT_EQ(atomic_number("fe"), 26);
  EXPECT_EQ(atomic_number("h"), 1);
}

TEST(Element, AnythingElseIsNone) {
  for (const std::string text :
       {"", "Q", "Fe1", "26", "F2", "@", "[", "`a", "H[", "H`", "\xC3\xA9", "H\x80", "H ", "{"}) {
    EXPECT_EQ(atomic_number(text), std::nullopt) << text;
  }
  EXPECT_EQ(atomic_number(std::string("H\0", 2)), std::nullopt);
}

}  // namespace
}  // namespace atompack
