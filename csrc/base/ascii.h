// Character classes that do not depend on the locale.
#pragma once

namespace atompack {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace atompack
