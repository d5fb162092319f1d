#include "formats/array_file/layer/strings.h"

#include <algorithm>

#include "base/utf8.h"

namespace atompack::array_file {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  size_t length = 0;                // of the character; 0: not a first byte
  uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte
};

// Unicode 15, table 3-7.
Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

struct Character {
  size_t length = 1;  // number of bytes that may begin a character
  bool whole = false;
};

Character first_character(Bytes text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {};
  size_t length = 1;
  for (; length < lead.length && length < text.size(); ++length) {
    const bool second = length == 1;
    if (byte(length) < (second ? lead.low : 0x80) || byte(length) > (second ? lead.high : 0xBF)) break;
  }
  return {length, length == lead.length};
}

}  // namespace

void check_room_for_offsets(uint64_t count, uint64_t chunk_bytes) {
  if (count < chunk_bytes / 4) return;
  throw CorruptFileError(cat("string offsets: expected more than ", count, ", got ", chunk_bytes / 4));
}

Strings::Strings(Bytes chunk, uint64_t count) {
  check_room_for_offsets(count, chunk.size());
  offsets_ = chunk.first(4 * (count + 1));
  payload_ = chunk.subspan(offsets_.size());
  if (offset(0) != 0) throw CorruptFileError(cat("first string offset: expected 0, got ", offset(0)));
  for (uint64_t i = 0; i < count; ++i) {
    if (offset(i + 1) < offset(i)) {
      throw CorruptFileError(cat("string offset ", i + 1, ": expected at least ", offset(i), ", got ", offset(i + 1)));
    }
  }
  if (offset(count) != payload_.size()) {
    throw CorruptFileError(cat("last string offset: expected ", payload_.size(), ", got ", offset(count)));
  }
}

std::string well_formed(Bytes text) {
  if (is_utf8(text)) return std::string(as_text(text));
  std::string made;
  while (!text.empty()) {
    const Character next = first_character(text);
    made += next.whole ? as_text(text.first(next.length)) : kReplacement;
    text = text.subspan(next.length);
  }
  return made;
}

}  // namespace atompack::array_file
