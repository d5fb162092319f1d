#include "formats/extxyz/json.h"

#include <charconv>
#include <optional>

#include "base/bytes.h"
#include "base/utf8.h"
#include "formats/extxyz/number.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kMostRank = 16;

bool is_delimiter(char c) { return is_space(c) || std::string_view(",[]{}").find(c) != std::string_view::npos; }

void append_utf8(uint32_t code, std::string& text) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// A list is read into one flat array; its shape is settled by the first list of each depth, which the others must
// match.
class ListParser {
 public:
  ListParser(std::string_view text, bool json, Array& out) : text_(text), json_(json), out_(out) {}

  bool parse() {
    out_.reset(Kind::flag);
    skip_space();
    if (!value(0)) return false;
    skip_space();
    if (at_ != text_.size()) return false;
    if (!scalar_depth_) scalar_depth_ = shape_.size();
    if (*scalar_depth_ != shape_.size()) return false;
    if (out_.size() == 0 && !shape_.empty()) out_.widen(Kind::real);  // an empty list is of no kind; NumPy's choice
    out_.shape = shape_;
    return true;
  }

 private:
  bool value(size_t depth) {
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '[') return list(depth, ']');
    if (c == '{' && !json_) return list(depth, '}');
    return scalar(depth);
  }

  bool list(size_t depth, char closing) {
    if (depth == kMostRank || (scalar_depth_ && depth >= *scalar_depth_)) return false;
    ++at_;
    int64_t n = 0;
    for (;; ++n) {
      skip_space();
      if (at_ < text_.size() && text_[at_] == closing) break;
      if (n > 0 && !separator()) return false;
      if (!value(depth + 1)) return false;
    }
    ++at_;
    if (shape_.size() < depth + 1) shape_.resize(depth + 1, kUnset);
    if (shape_[depth] == kUnset) shape_[depth] = n;
    return shape_[depth] == n;
  }

  bool separator() {
    if (at_ == text_.size()) return false;
    if (text_[at_] == ',') {
      ++at_;
      skip_space();
      return true;
    }
    return !json_ && (is_space(text_[at_ - 1]) || text_[at_ - 1] == ']' || text_[at_ - 1] == '}');
  }

  bool scalar(size_t depth) {
    if (!scalar_depth_) scalar_depth_ = depth;
    const size_t begin = at_;
    while (at_ < text_.size() && !is_delimiter(text_[at_])) ++at_;
    return *scalar_depth_ == depth && number(text_.substr(begin, at_ - begin));
  }

  bool number(std::string_view word) {
    if (const auto value = flag(word)) return add(*value);
    if (const auto value = parse_integer(word)) return add(*value);
    if (const auto value = parse_real(word)) return add(*value);
    return false;
  }

  std::optional<bool> flag(std::string_view word) const {
    if (!json_) return parse_flag(word);
    if (word == "true") return true;
    if (word == "false") return false;
    return std::nullopt;
  }

  bool add(bool value) {
    if (out_.kind != Kind::flag) return add(int64_t{value});
    out_.flags.push_back(value ? 1 : 0);
    return true;
  }
  bool add(int64_t value) {
    if (out_.kind == Kind::real) return add(static_cast<double>(value));
    out_.widen(Kind::integer);
    out_.integers.push_back(value);
    return true;
  }
  bool add(double value) {
    out_.widen(Kind::real);
    out_.reals.push_back(value);
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  static constexpr int64_t kUnset = -1;

  std::string_view text_;
  bool json_;
  Array& out_;
  size_t at_ = 0;
  std::vector<int64_t> shape_;
  std::optional<size_t> scalar_depth_;
};

// A text in double quotes, to its end.
class StringParser {
 public:
  explicit StringParser(std::string_view text) : text_(text) {}

  std::optional<std::string> parse() {
    for (at_ = 1; at_ < text_.size();) {
      const char c = text_[at_++];
      if (c == '"') return at_ == text_.size() ? std::optional(std::move(read_)) : std::nullopt;
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
      if (c != '\\') {
        read_ += c;
      } else if (!escape()) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  bool escape() {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) return false;
    const char c = text_[at_++];
    if (c == 'u') return code_point();
    const size_t i = kLetters.find(c);
    if (i == std::string_view::npos) return false;
    read_ += kMeanings[i];
    return true;
  }

  bool code_point() {
    uint32_t code = 0;
    if (!hexadecimal(code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      uint32_t low = 0;
      if (!hexadecimal(low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code < 0xE000) return false;
    append_utf8(code, read_);
    return true;
  }

  bool hexadecimal(uint32_t& code) {
    const std::string_view digits = text_.substr(at_, 4);
    at_ += digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    return error == std::errc() && digits.size() == 4 && stop == digits.data() + 4;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string read_;
};

}  // namespace

bool parse_json(std::string_view json, Array& out) {
  const std::string_view text = trimmed(json);
  if (!text.starts_with('"')) return ListParser(text, true, out).parse();
  std::optional<std::string> read = StringParser(text).parse();
  if (!read) return false;
  out.reset(Kind::text);
  out.texts.push_back(std::move(*read));
  return true;
}

bool parse_nested(std::string_view list, Array& out) { return ListParser(list, false, out).parse(); }

std::string json_string(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (code < 0x20 || code == 0x7F) {
      json += "\\u00";
      json += {kDigits[code >> 4], kDigits[code & 15]};
    } else {
      json += c;
    }
  }
  return json + '"';
}

}  // namespace atompack::extxyz
