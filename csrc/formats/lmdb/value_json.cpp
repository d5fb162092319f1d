#include "formats/lmdb/value_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/shape.h"

namespace atompack::lmdb {
namespace {

using parsed::Array;
using parsed::Kind;
using parsed::wider;
using serial::JsonReader;
using serial::Number;
using serial::Token;

#if defined(__aarch64__)
using Float16 = __fp16;  // g++ 12 has no other there
#else
using Float16 = _Float16;
#endif

constexpr int kMaxNesting = 16;
constexpr std::string_view kArray = "__ndarray__";

// Reads the value after "__ndarray__": [shape, type, values]. False, with the value skipped, for types that no field
// has.
class ArrayParser {
 public:
  ArrayParser(JsonReader& in, Array& out) : in_(in), out_(out) {}

  bool parse() {
    const uint64_t begin = in_.position();
    auto parts = in_.enter_list();
    expect_item(parts, begin);
    std::vector<int64_t> shape;
    for (auto dims = in_.enter_list(); in_.next_item(dims);) {
      if (!push_integer(in_.number(), shape) || shape.back() < 0 || shape.size() > Shape::kMaxRank) {
        throw CorruptFileError("shape of an array: expected sizes from 0", begin);
      }
    }
    expect_item(parts, begin);
    const std::string_view type = in_.text();
    const std::optional<Kind> kind = kind_of(type);
    out_.reset(kind.value_or(Kind::text));
    out_.is_narrow = is_narrow(type);
    is_float32_ = type == "float32";
    is_float16_ = type == "float16";
    expect_item(parts, begin);
    if (kind) {
      take_values(*kind, begin);
    } else {
      skip_value(in_);
    }
    if (in_.next_item(parts)) throw CorruptFileError("array: expected a shape, a type and values, got more", begin);
    if (!kind) return false;
    if (is_float32_) {
      for (double& value : out_.reals) value = static_cast<double>(static_cast<float>(value));
    } else if (is_float16_) {
      for (double& value : out_.reals) value = static_cast<double>(static_cast<Float16>(value));
    }
    uint64_t n = 1;
    for (const int64_t dim : shape) n = checked_mul(n, static_cast<uint64_t>(dim), "values of an array");
    if (n != out_.size()) throw CorruptFileError(cat("array: expected ", n, " values, got ", out_.size()), begin);
    out_.shape = std::move(shape);
    return fits_;
  }

 private:
  void expect_item(JsonReader::Scope& parts, uint64_t begin) {
    if (!in_.next_item(parts)) throw CorruptFileError("array: expected a shape, a type and values, got fewer", begin);
  }

  static std::optional<Kind> kind_of(std::string_view type) {
    if (type == "bool") return Kind::flag;
    if (type == "float64" || type == "float32" || type == "float16") return Kind::real;
    for (const std::string_view name : {"int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"}) {
      if (type == name) return Kind::integer;
    }
    return std::nullopt;
  }

  // Types that 32 bits hold, as the formats here store them.
  static bool is_narrow(std::string_view type) {
    return type == "float32" || type == "float16" || type == "int32" || type == "int16" || type == "int8" ||
           type == "uint8" || type == "uint16";
  }

  // Numbers are in one flat list, or in nested ones.
  void take_values(Kind kind, uint64_t begin, int depth = 0) {
    if (depth == kMaxNesting) throw CorruptFileError("array: expected fewer nested lists", begin);
    if (in_.peek() != Token::list) return take_value(kind);
    if (kind == Kind::real && starts_with_number()) return in_.append_reals(out_.reals);
    for (auto items = in_.enter_list(); in_.next_item(items);) take_values(kind, begin, depth + 1);
  }

  bool starts_with_number() const {
    JsonReader ahead = in_;
    auto items = ahead.enter_list();
    return ahead.next_item(items) && ahead.peek() == Token::number;
  }

  void take_value(Kind kind) {
    if (kind == Kind::flag) {
      out_.flags.push_back(in_.boolean() ? 1 : 0);
    } else if (kind == Kind::real) {
      out_.reals.push_back(std::visit([](auto exact) { return static_cast<double>(exact); }, in_.number()));
    } else if (!push_integer(in_.number(), out_.integers)) {
      out_.integers.push_back(0);
      fits_ = false;
    }
  }

  JsonReader& in_;
  Array& out_;
  bool fits_ = true, is_float32_ = false, is_float16_ = false;
};

// Reads numbers in nested lists of equal lengths; false, with the rest skipped, for anything else.
class ListParser {
 public:
  ListParser(JsonReader& in, Array& out) : in_(in), out_(out) {}

  bool parse() {
    out_.reset(Kind::flag);
    is_sound_ = true;
    take(0);
    if (!is_sound_ || kind_ == Kind::text) return false;
    out_.shape = shape_;
    if (parsed::product(out_.shape) == 0) return false;  // an empty list has no type
    return true;
  }

 private:
  void take(size_t depth) {
    switch (in_.peek()) {
      case Token::list:
        return take_list(depth);
      case Token::boolean:
        return in_.boolean() ? push(1, Kind::flag, depth) : push(0, Kind::flag, depth);
      case Token::number:
        return take_number(depth);
      default:
        is_sound_ = false;
        skip_value(in_);
    }
  }

  void take_list(size_t depth) {
    if (depth == kMaxNesting) throw CorruptFileError("list: expected fewer nested lists", in_.position());
    int64_t n = 0;
    if (depth == shape_.size()) {
      if (has_values_) is_sound_ = false;
      shape_.push_back(-1);
    }
    for (auto items = in_.enter_list(); in_.next_item(items); ++n) take(depth + 1);
    if (shape_[depth] < 0) shape_[depth] = n;
    is_sound_ = is_sound_ && shape_[depth] == n;
  }

  void take_number(size_t depth) {
    const Number number = in_.number();
    if (const double* const real = std::get_if<double>(&number)) {
      check_depth(depth);
      widen(Kind::real);
      out_.reals.push_back(*real);
      return;
    }
    std::vector<int64_t> one;
    if (!push_integer(number, one)) {
      is_sound_ = false;
      return;
    }
    push(one[0], Kind::integer, depth);
  }

  void push(int64_t value, Kind kind, size_t depth) {
    check_depth(depth);
    widen(kind);
    if (out_.kind == Kind::real) {
      out_.reals.push_back(static_cast<double>(value));
    } else if (out_.kind == Kind::integer) {
      out_.integers.push_back(value);
    } else {
      out_.flags.push_back(static_cast<uint8_t>(value));
    }
  }

  void check_depth(size_t depth) {
    has_values_ = true;
    is_sound_ = is_sound_ && depth == shape_.size();
  }

  void widen(Kind kind) {
    kind_ = kind_ == Kind::text ? kind : wider(kind_, kind);
    out_.widen(wider(out_.kind, kind));
  }

  JsonReader& in_;
  Array& out_;
  std::vector<int64_t> shape_;
  Kind kind_ = Kind::text;  // until there is a value
  bool is_sound_ = true, has_values_ = false;
};

}  // namespace

bool push_integer(const Number& number, std::vector<int64_t>& out) {
  if (const auto* const natural = std::get_if<uint64_t>(&number)) {
    if (*natural > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    out.push_back(static_cast<int64_t>(*natural));
  } else if (const auto* const negative = std::get_if<int64_t>(&number)) {
    out.push_back(*negative);
  } else {
    return false;
  }
  return true;
}

bool take_value(JsonReader& in, Array& out) {
  switch (in.peek()) {
    case Token::null:
      in.null();
      out.reset(Kind::null);
      return true;
    case Token::text:
      out.reset(Kind::text);
      out.texts.emplace_back(in.text());
      return true;
    case Token::boolean:
      out.reset(Kind::flag);
      out.flags.push_back(in.boolean() ? 1 : 0);
      return true;
    case Token::number: {
      const Number number = in.number();
      out.reset(Kind::integer);
      if (push_integer(number, out.integers)) return true;
      out.reset(Kind::real);
      if (std::holds_alternative<uint64_t>(number)) return false;
      out.reals.push_back(std::get<double>(number));
      return true;
    }
    case Token::list:
      return ListParser(in, out).parse();
    case Token::map:
      break;
  }
  bool is_array = false;
  auto scope = in.enter_map();
  for (std::string_view key; in.next_key(scope, key);) {
    if (key == kArray) {
      is_array = ArrayParser(in, out).parse();
    } else {
      is_array = false;
      skip_value(in);
    }
  }
  return is_array;
}

}  // namespace atompack::lmdb
