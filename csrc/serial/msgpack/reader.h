// Reader of MessagePack, value by value; document.h describes the methods.
#pragma once

#include "base/bytes.h"
#include "serial/document.h"

namespace atompack::serial {

// Keeps a view of the bytes. Not thread-safe.
class MsgpackReader {
 public:
  struct Scope {
    uint64_t left = 0;
  };

  explicit MsgpackReader(Bytes bytes) : bytes_(bytes) {}

  Token peek();
  Scope enter_map();
  bool next_key(Scope& scope, std::string_view& key);
  Scope enter_list();
  bool next_item(Scope& scope) { return scope.left-- > 0; }
  std::string_view text();
  bool text_was_escaped() const { return false; }
  Number number();
  bool boolean();
  void null() { ++at_; }
  uint64_t position() const { return at_; }
  Bytes since(uint64_t position) const { return bytes_.subspan(position, at_ - position); }
  bool skip_same(Bytes value);
  void finish() const;

 private:
  uint8_t front() const;
  Bytes take(uint64_t n);
  template <typename Stored>
  Stored take_big_endian();
  uint64_t take_length(uint8_t code, uint8_t code_of_16);

  Bytes bytes_;
  uint64_t at_ = 0;
};

}  // namespace atompack::serial
