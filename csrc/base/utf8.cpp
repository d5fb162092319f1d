#include "base/utf8.h"

namespace atompack {
namespace {

struct Lead {
  int continuations;  // -1: not a valid first byte
  // bounds of the first continuation byte: no overlong forms, surrogates, or code points above U+10FFFF
  uint8_t low, high;
};

Lead classify(uint8_t byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {-1, 0, 0};
}

// Returns the position of the next non-ASCII byte, or a position before it.
size_t skip_ascii(Bytes bytes, size_t i) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  constexpr size_t kWords = 4;
  const auto word = [&](size_t k) { return load_le<uint64_t>(bytes.data() + i + k * sizeof(uint64_t)); };
  while (bytes.size() - i >= kWords * sizeof(uint64_t) && ((word(0) | word(1) | word(2) | word(3)) & kHighBits) == 0) {
    i += kWords * sizeof(uint64_t);
  }
  while (bytes.size() - i >= sizeof(uint64_t) && (load_le<uint64_t>(bytes.data() + i) & kHighBits) == 0) {
    i += sizeof(uint64_t);
  }
  return i;
}

struct Character {
  size_t length = 1;  // number of bytes that may begin a character
  bool is_whole = false;
};

template <bool kSurrogates>
Character first_character(Bytes bytes) {
  Lead lead = classify(static_cast<uint8_t>(bytes[0]));
  if (lead.continuations < 0) return {};
  if (kSurrogates && lead.high == 0x9F) lead.high = 0xBF;
  const size_t whole = 1 + static_cast<size_t>(lead.continuations);
  size_t length = 1;
  for (; length < whole && length < bytes.size(); ++length) {
    const auto byte = static_cast<uint8_t>(bytes[length]);
    if (byte < lead.low || byte > lead.high) break;
    lead.low = 0x80;
    lead.high = 0xBF;
  }
  return {length, length == whole};
}

template <bool kSurrogates>
bool is_well_formed(Bytes bytes) {
  for (size_t i = 0; (i = skip_ascii(bytes, i)) < bytes.size();) {
    const Character next = first_character<kSurrogates>(bytes.subspan(i));
    if (!next.is_whole) return false;
    i += next.length;
  }
  return true;
}

}  // namespace

bool is_utf8(Bytes bytes) { return is_well_formed<false>(bytes); }

bool is_utf8_or_surrogates(Bytes bytes) { return is_well_formed<true>(bytes); }

std::string well_formed(Bytes text) {
  if (is_utf8(text)) return std::string(as_text(text));
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string made;
  while (!text.empty()) {
    const Character next = first_character<false>(text);
    made += next.is_whole ? as_text(text.first(next.length)) : kReplacement;
    text = text.subspan(next.length);
  }
  return made;
}

void append_utf8(uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xC0 | code >> 6), tail(0)};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xE0 | code >> 12), tail(6), tail(0)};
  } else {
    text += {static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
  }
}

}  // namespace atompack
