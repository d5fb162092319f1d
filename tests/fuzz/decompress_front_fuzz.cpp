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

Decoded front_of(Codec codec, Bytes unit, size_t size) {
  return decoded(size, [&](auto out) { codec::decompress_front(codec, unit, out); });
}

}  // namespace

void decompress_front(Bytes input) {
  ByteCursor cursor(input);
  if (input.size() < 5) return;
  const auto codec = static_cast<Codec>(cursor.read_le<uint8_t>("codec") % 3);
  const auto size = cursor.read_le<uint16_t>("size");
  const auto front_size = cursor.read_le<uint16_t>("front size") % (size + size_t{1});
  const Bytes unit = cursor.take(cursor.remaining(), "unit");
  const Decoded front = front_of(codec, unit, front_size);
  const Decoded whole = decoded(size, [&](auto out) { codec::decompress(codec, unit, out); });
  const std::optional<uint64_t> bound = bound_of(codec, unit);
  if (bound && *bound < kMostDecodedBytes) {
    require(!front_of(codec, unit, *bound + 1), "no front is longer than the bound of the unit");
  }
  if (!whole || !bound) return;
  require(front.has_value(), "a unit that can be decoded has a front");
  require(std::ranges::equal(*front, Bytes(*whole).first(front_size)), "the front is that of the unit");
}

}  // namespace atompack::fuzz
