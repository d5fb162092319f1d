// Decimal numbers that no double can hold.
#pragma once

#include <string_view>

namespace atompack {

// What is left of digits that std::from_chars finds out of range: an infinity where they are too many, a zero where
// they are too small, with their sign. `number`: as from_chars takes them; a plus in the exponent may be there.
double limit_of(std::string_view number);

}  // namespace atompack
