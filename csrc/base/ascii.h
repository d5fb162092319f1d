// Classes of characters, the same in every locale.
#pragma once

namespace atompack {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace atompack
