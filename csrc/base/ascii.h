// Character classes that do not depend on the locale.
#pragma once

#include <string>
#include <string_view>

namespace atompack {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

inline std::string lower_case(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (is_upper(c)) c = static_cast<char>(c + 32);
  }
  return made;
}

// Lower-case digits of all bytes.
inline std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    digits += {kDigits[code >> 4], kDigits[code & 15]};
  }
  return digits;
}

}  // namespace atompack
