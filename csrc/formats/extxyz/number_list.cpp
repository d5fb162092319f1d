#include "formats/extxyz/number_list.h"

#include <optional>

#include "formats/extxyz/number.h"

namespace atompack::extxyz {
namespace {

constexpr size_t kMaxRank = 16;

constexpr bool is_delimiter(char c) { return is_space(c) || c == ',' || c == '[' || c == ']' || c == '{' || c == '}'; }

// Reads a list into one flat array. The first list at each depth sets the length of all others at that depth.
class ListParser {
 public:
  ListParser(std::string_view text, ListStyle style, Array& out)
      : text_(text), is_loose_(style == ListStyle::loose), out_(out) {}

  bool parse() {
    out_.reset(Kind::flag);
    skip_space();
    if (!value(0)) return false;
    skip_space();
    if (at_ != text_.size()) return false;
    if (!scalar_depth_) scalar_depth_ = shape_.size();
    if (*scalar_depth_ != shape_.size()) return false;
    if (out_.size() == 0 && !shape_.empty()) out_.widen(Kind::real);  // an empty list has no kind; real as in NumPy
    out_.shape = shape_;
    return true;
  }

 private:
  bool value(size_t depth) {
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    if (c == '[') return list(depth, ']');
    if (c == '{' && is_loose_) return list(depth, '}');
    return scalar(depth);
  }

  bool list(size_t depth, char closing) {
    if (depth == kMaxRank || (scalar_depth_ && depth >= *scalar_depth_)) return false;
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
    return is_loose_ && (is_space(text_[at_ - 1]) || text_[at_ - 1] == ']' || text_[at_ - 1] == '}');
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
    if (word.empty() || std::string_view("tfTF").find(word[0]) == std::string_view::npos) return std::nullopt;
    if (is_loose_) return parse_flag(word);
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
  bool is_loose_;
  Array& out_;
  size_t at_ = 0;
  std::vector<int64_t> shape_;
  std::optional<size_t> scalar_depth_;
};

}  // namespace

bool parse_number_list(std::string_view text, ListStyle style, Array& out) {
  return ListParser(text, style, out).parse();
}

}  // namespace atompack::extxyz
