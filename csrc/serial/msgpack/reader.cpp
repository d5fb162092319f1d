#include "serial/msgpack/reader.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "base/utf8.h"

namespace atompack::serial {
namespace {

enum Code : uint8_t {
  kNil = 0xC0,
  kFalse = 0xC2,
  kTrue = 0xC3,
  kFloat32 = 0xCA,
  kFloat64 = 0xCB,
  kUint8 = 0xCC,
  kUint16 = 0xCD,
  kUint32 = 0xCE,
  kUint64 = 0xCF,
  kInt8 = 0xD0,
  kInt16 = 0xD1,
  kInt32 = 0xD2,
  kInt64 = 0xD3,
  kText8 = 0xD9,
  kText32 = 0xDB,
  kList16 = 0xDC,
  kList32 = 0xDD,
  kMap16 = 0xDE,
  kMap32 = 0xDF,
};

bool is_small_map(uint8_t code) { return (code & 0xF0) == 0x80; }
bool is_small_list(uint8_t code) { return (code & 0xF0) == 0x90; }
bool is_small_text(uint8_t code) { return (code & 0xE0) == 0xA0; }

Number signed_number(int64_t value) {
  if (value < 0) return value;
  return static_cast<uint64_t>(value);
}

}  // namespace

uint8_t MsgpackReader::front() const {
  if (at_ == bytes_.size()) throw CorruptFileError("MessagePack: expected a value, got the end of the document", at_);
  return static_cast<uint8_t>(bytes_[at_]);
}

Bytes MsgpackReader::take(uint64_t n) {
  if (n > bytes_.size() - at_) {
    throw CorruptFileError(cat("MessagePack: expected ", n, " bytes, got ", bytes_.size() - at_), at_);
  }
  const Bytes taken = bytes_.subspan(at_, n);
  at_ += n;
  return taken;
}

template <typename Stored>
Stored MsgpackReader::take_big_endian() {
  std::array<std::byte, sizeof(Stored)> bytes;
  std::ranges::reverse_copy(take(sizeof(Stored)), bytes.begin());
  return std::bit_cast<Stored>(bytes);
}

Token MsgpackReader::peek() {
  const uint8_t code = front();
  if (code < 0x80 || code >= 0xE0 || (code >= kFloat32 && code <= kInt64)) return Token::number;
  if (is_small_text(code) || (code >= kText8 && code <= kText32)) return Token::text;
  if (is_small_map(code) || code == kMap16 || code == kMap32) return Token::map;
  if (is_small_list(code) || code == kList16 || code == kList32) return Token::list;
  if (code == kNil) return Token::null;
  if (code == kFalse || code == kTrue) return Token::boolean;
  throw CorruptFileError(cat("MessagePack: expected a plain value, got code ", int{code}), at_);
}

// For codes followed by a length of 16 or 32 bits.
uint64_t MsgpackReader::take_length(uint8_t code, uint8_t code_of_16) {
  return code == code_of_16 ? take_big_endian<uint16_t>() : take_big_endian<uint32_t>();
}

MsgpackReader::Scope MsgpackReader::enter_map() {
  const uint8_t code = front();
  ++at_;
  return {is_small_map(code) ? code & 0x0FU : take_length(code, kMap16)};
}

MsgpackReader::Scope MsgpackReader::enter_list() {
  const uint8_t code = front();
  ++at_;
  return {is_small_list(code) ? code & 0x0FU : take_length(code, kList16)};
}

bool MsgpackReader::next_key(Scope& scope, std::string_view& key) {
  if (!next_item(scope)) return false;
  if (const Token token = peek(); token != Token::text) {
    throw CorruptFileError(cat("MessagePack: expected a string as key, got ", name_of(token)), at_);
  }
  key = text();
  return true;
}

std::string_view MsgpackReader::text() {
  const uint64_t begin = at_;
  const uint8_t code = front();
  ++at_;
  uint64_t length = code & 0x1F;
  if (!is_small_text(code)) length = code == kText8 ? take_big_endian<uint8_t>() : take_length(code, kText8 + 1);
  const Bytes text = take(length);
  if (!is_utf8(text)) throw CorruptFileError("MessagePack: expected UTF-8, got other bytes", begin);
  return as_text(text);
}

Number MsgpackReader::number() {
  const uint8_t code = front();
  ++at_;
  switch (code) {
    case kFloat32:
      return static_cast<double>(take_big_endian<float>());
    case kFloat64:
      return take_big_endian<double>();
    case kUint8:
      return uint64_t{take_big_endian<uint8_t>()};
    case kUint16:
      return uint64_t{take_big_endian<uint16_t>()};
    case kUint32:
      return uint64_t{take_big_endian<uint32_t>()};
    case kUint64:
      return take_big_endian<uint64_t>();
    case kInt8:
      return signed_number(take_big_endian<int8_t>());
    case kInt16:
      return signed_number(take_big_endian<int16_t>());
    case kInt32:
      return signed_number(take_big_endian<int32_t>());
    case kInt64:
      return signed_number(take_big_endian<int64_t>());
    default:
      return signed_number(static_cast<int8_t>(code));  // the code is the value
  }
}

bool MsgpackReader::boolean() {
  const bool value = front() == kTrue;
  ++at_;
  return value;
}

bool MsgpackReader::skip_same(Bytes value) {
  if (!as_text(bytes_.subspan(at_)).starts_with(as_text(value))) return false;
  at_ += value.size();
  return true;
}

void MsgpackReader::finish() const {
  if (at_ == bytes_.size()) return;
  throw CorruptFileError(cat("MessagePack: expected the end of the document, got ", bytes_.size() - at_, " more bytes"),
                         at_);
}

}  // namespace atompack::serial
