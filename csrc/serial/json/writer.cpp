#include "serial/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/ascii.h"
#include "base/error.h"

namespace atompack::serial {
namespace {

std::string escape_of(char c) { return "\\u00" + hex_digits({&c, 1}); }

template <typename Integer>
void append_integer(Integer value, std::string& out) {
  std::array<char, 24> digits;
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

// Shortest digits that read back as this number, and the power of ten of the first one.
struct Decimal {
  std::string digits;
  int power = 0;
};

Decimal decimal_of(double value) {
  std::array<char, 32> text;
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific).ptr;
  const std::string_view all(text.data(), static_cast<size_t>(end - text.data()));
  const size_t mark = all.find('e');
  Decimal decimal;
  for (const char c : all.substr(0, mark)) {
    if (c != '.') decimal.digits += c;
  }
  const size_t sign = all[mark + 1] == '+' ? 1 : 0;  // from_chars does not accept a plus sign
  std::from_chars(all.data() + mark + 1 + sign, end, decimal.power);
  return decimal;
}

std::string plain(const Decimal& decimal) {
  const auto n = static_cast<int>(decimal.digits.size());
  if (decimal.power < 0) return "0." + std::string(static_cast<size_t>(-1 - decimal.power), '0') + decimal.digits;
  if (n <= decimal.power + 1)
    return decimal.digits + std::string(static_cast<size_t>(decimal.power + 1 - n), '0') + ".0";
  const auto point = static_cast<size_t>(decimal.power) + 1;
  return decimal.digits.substr(0, point) + '.' + decimal.digits.substr(point);
}

std::string with_exponent(const Decimal& decimal) {
  const std::string rest = decimal.digits.substr(1);
  return cat(decimal.digits[0], rest.empty() ? "" : ".", rest, 'e', decimal.power < 0 ? "" : "+", decimal.power);
}

}  // namespace

void JsonWriter::open(char bracket) {
  out_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) {
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }
  out_ += bracket;
  first_ = false;
}

void JsonWriter::next_line() {
  out_ += first_ ? "\n" : ",\n";
  out_.append(2 * depth_, ' ');
  first_ = false;
}

void JsonWriter::key(std::string_view key) {
  next_line();
  text(key);
  out_ += ": ";
}

void JsonWriter::text(std::string_view text) {
  out_ += '"';
  write_escaped(text);
  out_ += '"';
}

void JsonWriter::string_like_timestamp(std::string_view text) {
  out_ += '"';
  out_ += escape_of(text.front());
  write_escaped(text.substr(1));
  out_ += '"';
}

void JsonWriter::write_escaped(std::string_view text) {
  constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt";
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out_ += text.substr(begin, i - begin);
    begin = i + 1;
    if (const size_t which = kMeanings.find(c); which != std::string_view::npos) {
      out_ += {'\\', kNames[which]};
    } else {
      out_ += escape_of(c);
    }
  }
  out_ += text.substr(begin);
}

void JsonWriter::natural(uint64_t value) { append_integer(value, out_); }

void JsonWriter::integer(int64_t value) { append_integer(value, out_); }

// Always writes a point or an exponent; without one the number would be read back as an integer.
void JsonWriter::real(double value) {
  constexpr int kMinPlain = -5, kMaxPlain = 15;  // powers of ten
  if (!std::isfinite(value)) throw FieldError(cat("JSON: expected a finite number, got ", value));
  if (std::signbit(value)) out_ += '-';
  const Decimal decimal = decimal_of(std::fabs(value));
  const bool is_plain = decimal.power >= kMinPlain && decimal.power <= kMaxPlain;
  out_ += is_plain ? plain(decimal) : with_exponent(decimal);
}

}  // namespace atompack::serial
