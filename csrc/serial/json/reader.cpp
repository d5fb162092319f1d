#include "serial/json/reader.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/ascii.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/real.h"
#include "base/utf8.h"

namespace atompack::serial {
namespace {

// Characters that need no escape and do not end a string.
bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

Number number_of(std::string_view token, bool integral) {
  const char* const end = token.data() + token.size();
  uint64_t natural = 0;
  int64_t negative = 0;
  if (integral && std::from_chars(token.data(), end, natural).ec == std::errc()) return natural;
  // "-0" is a real number, whose sign an integer would lose.
  if (integral && std::from_chars(token.data(), end, negative).ec == std::errc() && negative != 0) return negative;
  double real = 0;
  if (std::from_chars(token.data(), end, real).ec == std::errc::result_out_of_range) real = limit_of(token);
  return real;
}

}  // namespace

JsonReader::JsonReader(Bytes text, JsonStyle style) : text_(as_text(text)), is_python_(style == JsonStyle::python) {
  if (!is_utf8(text)) throw CorruptFileError("JSON: expected UTF-8, got other bytes");
}

void JsonReader::fail(std::string_view expected) const {
  if (at_ >= text_.size())
    throw CorruptFileError(cat("JSON: expected ", expected, ", got the end of the document"), at_);
  throw CorruptFileError(cat("JSON: expected ", expected, ", got something else"), at_);
}

void JsonReader::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

char JsonReader::front() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::take(char c) {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Token JsonReader::peek() {
  switch (const char c = front()) {
    case '{':
      return Token::map;
    case '[':
      return Token::list;
    case '"':
      return Token::text;
    case 't':
    case 'f':
      return Token::boolean;
    case 'n':
      return Token::null;
    default:
      if (c != '-' && !is_digit(c) && !(is_python_ && (c == 'N' || c == 'I'))) fail("a value");
      return Token::number;
  }
}

uint64_t JsonReader::position() {
  skip_space();
  return at_;
}

JsonReader::Scope JsonReader::enter(char bracket) {
  skip_space();
  if (!take(bracket)) fail(bracket == '{' ? "a map" : "a list");
  return {};
}

bool JsonReader::next(Scope& scope, char end) {
  skip_space();
  if (take(end)) return false;
  if (!scope.first && !take(',')) fail("a comma or a closing bracket");
  scope.first = false;
  return true;
}

bool JsonReader::next_key(Scope& scope, std::string_view& key) {
  if (!next(scope, '}')) return false;
  key = text();
  skip_space();
  if (!take(':')) fail("a colon");
  return true;
}

std::string_view JsonReader::text() {
  skip_space();
  if (!take('"')) fail("a string");
  const size_t begin = at_;
  while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
  escaped_ = at_ < text_.size() && text_[at_] == '\\';
  if (escaped_) return escaped_text(begin);
  if (!take('"')) fail("the end of a string");
  return text_.substr(begin, at_ - 1 - begin);
}

std::string_view JsonReader::escaped_text(size_t begin) {
  unescaped_ = text_.substr(begin, at_ - begin);
  while (!take('"')) {
    if (take('\\')) {
      take_escape();
      continue;
    }
    const size_t plain = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    if (at_ == plain) fail("the end of a string");
    unescaped_ += text_.substr(plain, at_ - plain);
  }
  return unescaped_;
}

void JsonReader::take_escape() {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (take('u')) return take_code_point();
  const size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
  if (which == std::string_view::npos) fail("an escape");
  unescaped_ += kMeanings[which];
  ++at_;
}

// A code point above U+FFFF takes two escapes, neither of which is valid alone.
void JsonReader::take_code_point() {
  uint32_t code = take_hex();
  if (code >= 0xD800 && code < 0xDC00) {
    const uint32_t low = take('\\') && take('u') ? take_hex() : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail("a low surrogate");
    code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF);
  } else if (code >= 0xDC00 && code < 0xE000) {
    fail("a surrogate pair");
  }
  append_utf8(code, unescaped_);
}

uint32_t JsonReader::take_hex() {
  constexpr size_t kDigits = 4;
  uint32_t code = 0;
  const std::string_view digits = text_.substr(at_, kDigits);
  const char* const end = digits.data() + digits.size();
  if (digits.size() != kDigits || std::from_chars(digits.data(), end, code, 16).ptr != end) fail("four hex digits");
  at_ += kDigits;
  return code;
}

void JsonReader::take_digits() {
  const size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  if (at_ == begin) fail("a digit");
}

bool JsonReader::take_word(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

// Reads a natural number that surely fits; nothing if there is another one.
std::optional<uint64_t> JsonReader::take_natural() {
  constexpr size_t kMaxDigits = 18;
  uint64_t value = 0;
  size_t at = at_;
  for (; at < text_.size() && is_digit(text_[at]); ++at) value = 10 * value + static_cast<uint64_t>(text_[at] - '0');
  const size_t n = at - at_;
  if (n == 0 || n > kMaxDigits || (n > 1 && text_[at_] == '0')) return std::nullopt;
  if (at < text_.size() && (text_[at] == '.' || text_[at] == 'e' || text_[at] == 'E')) return std::nullopt;
  at_ = at;
  return value;
}

// Reads one of the numbers that only Python writes.
std::optional<double> JsonReader::take_special() {
  if (!is_python_ || at_ >= text_.size() || is_digit(text_[at_])) return std::nullopt;
  if (take_word("NaN")) return std::numeric_limits<double>::quiet_NaN();
  if (take_word("Infinity")) return std::numeric_limits<double>::infinity();
  if (take_word("-Infinity")) return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

bool JsonReader::append_naturals(std::vector<int64_t>& out) {
  skip_space();
  while (const std::optional<uint64_t> value = take_natural()) {
    out.push_back(static_cast<int64_t>(*value));
    if (!text_.substr(at_).starts_with(", ")) return true;
    at_ += 2;
  }
  return false;
}

void JsonReader::append_reals(std::vector<double>& out) {
  const char* const end = text_.data() + text_.size();
  for (Scope scope = enter_list(); next_item(scope);) {
    skip_space();
    double value = 0;
    const char* at = text_.data() + at_;
    const char* stop = parse_decimal(at, end, value);
    for (; stop != nullptr && stop[0] == ',' && stop[1] == ' '; stop = parse_decimal(at, end, value)) {
      out.push_back(value);
      at = stop + 2;
    }
    at_ = static_cast<size_t>((stop == nullptr ? at : stop) - text_.data());
    if (stop == nullptr) value = std::visit([](auto exact) { return static_cast<double>(exact); }, number());
    out.push_back(value);
  }
}

Number JsonReader::number() {
  skip_space();
  if (const std::optional<uint64_t> natural = take_natural()) return *natural;
  if (const std::optional<double> special = take_special()) return *special;
  const size_t begin = at_;
  take('-');
  if (!take('0')) take_digits();
  bool integral = true;
  if (take('.')) {
    take_digits();
    integral = false;
  }
  if (take('e') || take('E')) {
    if (!take('-')) take('+');
    take_digits();
    integral = false;
  }
  const Number number = number_of(text_.substr(begin, at_ - begin), integral);
  if (const double* const real = std::get_if<double>(&number); real != nullptr && std::isinf(*real)) {
    throw CorruptFileError("JSON: expected a number in the range of float64, got a larger one", begin);
  }
  return number;
}

bool JsonReader::boolean() {
  const bool value = front() == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonReader::literal(std::string_view word) {
  skip_space();
  if (!text_.substr(at_).starts_with(word)) fail(word);
  at_ += word.size();
}

bool JsonReader::skip_same(Bytes value) {
  skip_space();
  if (!text_.substr(at_).starts_with(as_text(value))) return false;
  at_ += value.size();
  return true;
}

void JsonReader::finish() {
  skip_space();
  if (at_ != text_.size()) fail("the end of the document");
}

}  // namespace atompack::serial
