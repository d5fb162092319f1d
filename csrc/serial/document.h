// What the readers of JSON and of MessagePack have in common: both hand out a document value by value.
//   Token peek();                       what comes next
//   Scope enter_map(); bool next_key(Scope&, std::string_view& key);    valid until the next text or key
//   Scope enter_list(); bool next_item(Scope&);
//   std::string_view text(); Number number(); bool boolean(); void null();    what peek() said
//   bool text_was_escaped();            of the last text
//   uint64_t position(); Bytes since(uint64_t position);
//   bool skip_same(Bytes value);        the next value if it has these bytes, which were a map before
//   void finish();                      nothing more may follow
// All of them throw CorruptFileError.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace atompack::atlas_store {

enum class Token : uint8_t { null, boolean, number, text, list, map };

constexpr std::string_view name_of(Token token) {
  constexpr std::string_view kNames[] = {"null", "a bool", "a number", "a text", "a list", "a map"};
  return kNames[static_cast<size_t>(token)];
}

// Integers from 0, integers below, and all others.
using Number = std::variant<uint64_t, int64_t, double>;

// Passes over the next value, which is checked all the same. Deep documents are refused, before the stack is full.
template <typename In>
void skip_value(In& in, int depth = 0) {
  constexpr int kMostDepth = 128;
  if (depth == kMostDepth) {
    throw CorruptFileError(cat("metadata: expected at most ", kMostDepth, " values in each other"), in.position());
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

}  // namespace atompack::atlas_store
