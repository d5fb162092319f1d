// Parsing and formatting of numbers, independent of the locale.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/decimal.h"

namespace atompack::extxyz {

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The whole token must be a number; FORMAT.md#numbers.
std::optional<double> parse_real(std::string_view token);
std::optional<int64_t> parse_integer(std::string_view token);
std::optional<bool> parse_flag(std::string_view token);

// Appends the shortest string that reads back as the same bits, except for sign and payload of NaN.
void append_real(double value, std::string& text);
// The same, always distinguishable from an integer.
void append_marked_real(double value, std::string& text);
void append_integer(int64_t value, std::string& text);

// Returns the token at `at`, which is not a space, and moves past it.
inline std::string_view take_token(const char*& at, const char* end) {
  const char* const begin = at;
  while (at != end && !is_space(*at)) ++at;
  return {begin, static_cast<size_t>(at - begin)};
}

// Reads the number at `at` and moves past it; false leaves both unchanged. Plain numbers take fast paths, which may
// look at bytes after the line, before `readable`.
inline bool take_real(const char*& at, const char* end, const char* readable, double& value) {
  if (const char* const stop = parse_decimal(at, readable, value); stop != nullptr && (stop == end || is_space(*stop)))
      [[likely]] {
    at = stop;
    return true;
  }
  const auto [stop, error] = std::from_chars(at, end, value);
  if (error == std::errc() && (stop == end || is_space(*stop)) && !std::isnan(value)) {
    at = stop;
    return true;
  }
  const char* next = at;
  const std::optional<double> parsed = parse_real(take_token(next, end));
  if (!parsed) return false;
  at = next;
  value = *parsed;
  return true;
}

}  // namespace atompack::extxyz
