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
  while (bytes.size() - i >= sizeof(uint64_t) && (load_le<uint64_t>(bytes.data() + i) & kHighBits) == 0) {
    i += sizeof(uint64_t);
  }
  return i;
}

template <bool kSurrogates>
bool is_well_formed(Bytes bytes) {
  for (size_t i = 0; (i = skip_ascii(bytes, i)) < bytes.size();) {
    Lead lead = classify(static_cast<uint8_t>(bytes[i++]));
    if (lead.continuations < 0) return false;
    if (kSurrogates && lead.high == 0x9F) lead.high = 0xBF;
    for (; lead.continuations > 0; --lead.continuations, ++i) {
      if (i == bytes.size()) return false;
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if (byte < lead.low || byte > lead.high) return false;
      lead.low = 0x80;
      lead.high = 0xBF;
    }
  }
  return true;
}

}  // namespace

bool is_utf8(Bytes bytes) { return is_well_formed<false>(bytes); }

bool is_utf8_or_surrogates(Bytes bytes) { return is_well_formed<true>(bytes); }

}  // namespace atompack
