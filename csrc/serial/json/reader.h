// JSON (RFC 8259), value by value; document.h describes the methods, docs/decisions/json.md why it is our own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "serial/document.h"

namespace atompack::serial {

// strict: RFC 8259. python: also NaN, Infinity and -Infinity, which Python's writer uses.
enum class JsonStyle : uint8_t { strict, python };

// Keeps a view of the document. Not thread-safe.
class JsonReader {
 public:
  struct Scope {
    bool first = true;
  };

  explicit JsonReader(Bytes text, JsonStyle style = JsonStyle::strict);

  Token peek();
  Scope enter_map() { return enter('{'); }
  bool next_key(Scope& scope, std::string_view& key);
  Scope enter_list() { return enter('['); }
  bool next_item(Scope& scope) { return next(scope, ']'); }
  std::string_view text();
  bool text_was_escaped() const { return escaped_; }
  Number number();
  // Appends natural numbers that come next in a list; false if the item after them is none, and has to be taken.
  bool append_naturals(std::vector<int64_t>& out);
  // Appends the numbers of a list of nothing else, as float64.
  void append_reals(std::vector<double>& out);
  bool boolean();
  void null() { literal("null"); }
  uint64_t position();
  Bytes since(uint64_t position) const { return as_bytes(text_.substr(position, at_ - position)); }
  bool skip_same(Bytes value);
  void finish();

 private:
  [[noreturn]] void fail(std::string_view expected) const;
  void skip_space();
  char front();
  bool take(char c);
  Scope enter(char bracket);
  bool next(Scope& scope, char end);
  void literal(std::string_view word);
  void take_digits();
  bool take_word(std::string_view word);
  std::optional<uint64_t> take_natural();
  std::optional<double> take_special();
  std::string_view escaped_text(size_t begin);
  void take_escape();
  uint32_t take_hex();
  void take_code_point();

  std::string_view text_;
  bool is_python_;
  size_t at_ = 0;
  bool escaped_ = false;
  std::string unescaped_;
};

}  // namespace atompack::serial
