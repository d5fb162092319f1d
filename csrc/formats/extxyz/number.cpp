#include "formats/extxyz/number.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/real.h"

namespace atompack::extxyz {
namespace {

// from_chars accepts no plus sign; "+-1" must not become -1.
std::string_view without_plus(std::string_view token) {
  const bool signed_plus = token.size() > 1 && token[0] == '+' && token[1] != '-' && token[1] != '+';
  return signed_plus ? token.substr(1) : token;
}

std::optional<double> parse_plain_real(std::string_view token) {
  double value = 0;
  const auto [stop, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (stop != token.data() + token.size() || token.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return limit_of(token);
  if (error != std::errc()) return std::nullopt;
  if (std::isnan(value) && token.back() == ')') return std::nullopt;  // "nan(...)", which only C accepts
  return value;
}

// Fortran's double precision, "1.0d-3". A number without a point may also be a name: "12d3".
std::optional<double> parse_fortran_real(std::string_view token) {
  const size_t mark = token.find_first_of("dD");
  if (mark == std::string_view::npos || token.substr(0, mark).find('.') == std::string_view::npos) return std::nullopt;
  if (!std::ranges::any_of(token.substr(0, mark), is_digit)) return std::nullopt;
  std::string plain(token);
  plain[mark] = 'e';
  return parse_plain_real(plain);
}

}  // namespace

std::optional<double> parse_real(std::string_view token) {
  const std::string_view number = without_plus(token);
  if (const auto value = parse_plain_real(number)) return value;
  return parse_fortran_real(number);
}

std::optional<int64_t> parse_integer(std::string_view token) { return parse_number<int64_t>(without_plus(token)); }

std::optional<bool> parse_flag(std::string_view token) {
  if (token == "T" || token == "True" || token == "true" || token == "TRUE") return true;
  if (token == "F" || token == "False" || token == "false" || token == "FALSE") return false;
  return std::nullopt;
}

void append_real(double value, std::string& text) {
  std::array<char, 32> digits;
  if (std::isnan(value)) {
    text += "nan";
    return;
  }
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

void append_marked_real(double value, std::string& text) {
  const size_t begin = text.size();
  append_real(value, text);
  if (text.find_first_of(".en", begin) == std::string::npos) text += ".0";
}

void append_integer(int64_t value, std::string& text) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

}  // namespace atompack::extxyz
