// Interface of the readers of JSON and of MessagePack, which hand out a document value by value:
//   Token peek();                       kind of the next value
//   Scope enter_map(); bool next_key(Scope&, std::string_view& key);    the key is valid until the next string or key
//   Scope enter_list(); bool next_item(Scope&);
//   std::string_view text(); Number number(); bool boolean(); void null();    the next value, of the kind of peek()
//   bool text_was_escaped();            the last string contained escapes
//   uint64_t position(); Bytes since(uint64_t position);
//   bool skip_same(Bytes value);        skips the next value if it equals these bytes, which were read as a map before
//   void finish();                      checks that the document ends here
// All methods throw CorruptFileError.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace atompack::serial {

enum class Token : uint8_t { null, boolean, number, text, list, map };

constexpr std::string_view name_of(Token token) {
  constexpr std::string_view kNames[] = {"null", "a bool", "a number", "a text", "a list", "a map"};
  return kNames[static_cast<size_t>(token)];
}

// Integers >= 0 that fit, integers < 0 that fit, all other numbers.
using Number = std::variant<uint64_t, int64_t, double>;

// Skips the next value, which is checked like any other. Rejects deep documents before they exhaust the stack.
template <typename In>
void skip_value(In& in, int depth = 0) {
  constexpr int kMaxDepth = 128;
  if (depth == kMaxDepth) {
    throw CorruptFileError(cat("metadata: expected a nesting depth of at most ", kMaxDepth, ", got more"),
                           in.position());
  }
  std::string_view key;
  switch (in.peek()) {
    case Token::null:
      return in.null();
    case Token::boolean:
      return static_cast<void>(in.boolean());
    case Token::number:
      return static_cast<void>(in.number());
    case Token::text:
      return static_cast<void>(in.text());
    case Token::list:
      for (auto scope = in.enter_list(); in.next_item(scope);) skip_value(in, depth + 1);
      return;
    case Token::map:
      for (auto scope = in.enter_map(); in.next_key(scope, key);) skip_value(in, depth + 1);
  }
}

}  // namespace atompack::serial
