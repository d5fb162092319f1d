// Strict JSON (RFC 8259), value by value; document.h describes the methods, docs/decisions/json.md why it is our own.
#pragma once

#include <string>

#include "base/bytes.h"
#include "serial/document.h"

namespace atompack::serial {

// Keeps a view of the document. Not thread-safe.
class JsonReader {
 public:
  struct Scope {
    bool first = true;
  };

  explicit JsonReader(Bytes text);

  Token peek();
  Scope enter_map() { return enter('{'); }
  bool next_key(Scope& scope, std::string_view& key);
  Scope enter_list() { return enter('['); }
  bool next_item(Scope& scope) { return next(scope, ']'); }
  std::string_view text();
  bool text_was_escaped() const { return escaped_; }
  Number number();
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
  std::string_view escaped_text(size_t begin);
  void take_escape();
  uint32_t take_hex();
  void take_code_point();

  std::string_view text_;
  size_t at_ = 0;
  bool escaped_ = false;
  std::string unescaped_;
};

}  // namespace atompack::serial
