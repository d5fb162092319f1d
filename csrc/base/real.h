// Limits for decimal numbers outside the range of double.
#pragma once

#include <string_view>

namespace atompack {

// Value of a number that std::from_chars reports as out of range: infinity if it is too large, zero if it is too small,
// with its sign. `number` is in the syntax of from_chars; the exponent may have a plus sign.
double limit_of(std::string_view number);

}  // namespace atompack
