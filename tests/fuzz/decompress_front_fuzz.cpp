#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "codec/codec.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using codec::Codec;
using Decoded = std::optional<std::vector<std::byte>>;

constexpr uint64_t kMostDecodedBytes = 1 << 20;

// Nothing where the unit is refused.
template <typename Decode>
Decoded decoded(size_t size, const Decode& decode) {
  std::vector<std::byte> out(size);
  try {
    decode(std::span(out));
    return out;
  } catch (const CorruptFileError&) {
    return std::nullopt;
  }
}

std::optional<uint64_t> bound_of(Codec codec, Bytes unit) {
  try {
    return codec::decoded_bound(codec, unit);
  } catch (const CorruptFileError&) {
    return std::nullopt;
  }
}

// How much the libraries make of a unit; 0 where they refuse it.
size_t size_of(Codec codec, Bytes unit) {
  static std::vector<std::byte> room(kMostDecodedBytes);
  if (codec == Codec::none) return unit.size();
  if (codec == Codec::zstd) {
    const size_t n = ZSTD_decompress(room.data(), room.size(), unit.data(), unit.size());
    return ZSTD_isError(n) ? 0 : n;
  }
  return static_cast<size_t>(
      std::max(0, LZ4_decompress_safe(reinterpret_cast<const char*>(unit.data()), reinterpret_cast<char*>(room.data()),
                                      static_cast<int>(unit.size()), static_cast<int>(room.size()))));
}

uint64_t lz4_length(ByteCursor& cursor, uint64_t length) {
  if (length < 15) return length;
  for (uint8_t more = 255; more == 255; length += more) more = cursor.read_le<uint8_t>("length");
  return length;
}

// Whether an lz4 block that the library takes has a match at distance 0: what that stands for is not defined.
bool has_match_at_0(Bytes unit) {
  ByteCursor cursor(unit);
  while (cursor.remaining() > 0) {
    const auto token = cursor.read_le<uint8_t>("token");
    cursor.take(lz4_length(cursor, token >> 4), "literals");
    if (cursor.remaining() == 0) return false;
    if (cursor.read_le<uint16_t>("distance") == 0) return true;
    lz4_length(cursor, token & 15);
  }
  return false;
}

Decoded front_of(Codec codec, Bytes unit, size_t size) {
  return decoded(size, [&](auto out) { codec::decompress_front(codec, unit, out); });
}

}  // namespace

void decompress_front(Bytes input) {
  ByteCursor cursor(input);
  if (input.size() < 3) return;
  const auto codec = static_cast<Codec>(cursor.read_le<uint8_t>("codec") % 3);
  const auto wanted = cursor.read_le<uint16_t>("size of the front");
  const Bytes unit = cursor.take(cursor.remaining(), "unit");
  const size_t size = size_of(codec, unit), front_size = wanted % (size + 1);
  const Decoded front = front_of(codec, unit, front_size);
  const Decoded whole = decoded(size, [&](auto out) { codec::decompress(codec, unit, out); });
  const std::optional<uint64_t> bound = bound_of(codec, unit);
  if (bound && *bound < kMostDecodedBytes) {
    require(!front_of(codec, unit, *bound + 1), "no front is longer than the bound of the unit");
  }
  if (!whole || !bound || (codec == Codec::lz4 && has_match_at_0(unit))) return;
  require(front.has_value(), "a unit that can be decoded has a front");
  require(std::ranges::equal(*front, Bytes(*whole).first(front_size)), "the front is that of the unit");
}

}  // namespace atompack::fuzz
