// Character classes that do not depend on the locale.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

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

// Value of a text that is nothing but a number.
template <typename T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
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
