#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using codec::Codec;

// Units that hold more are decoded no further.
constexpr size_t kMostDecodedBytes = 4 << 20;

// Nothing where the unit is refused at sight.
std::optional<uint64_t> bound_of(Codec codec, Bytes unit, std::string& why) {
  try {
    return codec::decoded_bound(codec, unit);
  } catch (const CorruptFileError& error) {
    why = error.what();
    return std::nullopt;
  }
}

bool refuses(Codec codec, Bytes unit, std::span<std::byte> out) {
  try {
    codec::decompress(codec, unit, out);
    return false;
  } catch (const CorruptFileError&) {
    return true;
  }
}

// A unit is given back in full and never in part.
void check_decoder(Codec codec, Bytes unit, Bytes expected) {
  std::vector<std::byte> out(expected.size());
  // The lz4 library takes a block that breaks the rules for its last bytes only while there is more room after them.
  if (refuses(codec, unit, out)) return require(codec == Codec::lz4, "a unit that can be decoded is not refused");
  require(std::ranges::equal(out, expected), "both decoders agree");
  out.resize(expected.size() + 1);
  require(refuses(codec, unit, out), "a unit that comes out shorter is refused");
}

void check_bound(Codec codec, Bytes unit, Bytes decoded) {
  std::string why;
  const std::optional<uint64_t> bound = bound_of(codec, unit, why);
  if (!bound) {
    // The library also takes blocks that are too long and frames from before version 0.8, where it was built so.
    const bool on_purpose =
        why.starts_with("zstd block: expected at most") || why.starts_with("zstd: expected a frame, got other bytes");
    return require(on_purpose, "only what the format does not know is refused");
  }
  require(decoded.size() <= *bound, "a unit holds no more than its bound");
  check_decoder(codec, unit, decoded);
}

// With all the room that the bound justifies.
void decode_at_bound(Codec codec, Bytes unit) {
  std::string why;
  const std::optional<uint64_t> bound = bound_of(codec, unit, why);
  if (!bound || *bound > kMostDecodedBytes) return;
  std::vector<std::byte> out(*bound);
  refuses(codec, unit, out);
}

std::vector<std::byte>& room() {
  static std::vector<std::byte> memory(kMostDecodedBytes);
  return memory;
}

}  // namespace

void bound_zstd(Bytes input) {
  decode_at_bound(Codec::zstd, input);
  const size_t n = ZSTD_decompress(room().data(), room().size(), input.data(), input.size());
  if (ZSTD_isError(n)) return;
  check_bound(Codec::zstd, input, Bytes(room()).first(n));
}

void bound_lz4(Bytes input) {
  decode_at_bound(Codec::lz4, input);
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(input.data()), reinterpret_cast<char*>(room().data()),
                                    static_cast<int>(input.size()), static_cast<int>(room().size()));
  if (n <= 0) return;  // of blocks of nothing, the library accepts a different one for each size of the buffer
  check_bound(Codec::lz4, input, Bytes(room()).first(static_cast<size_t>(n)));
}

}  // namespace atompack::fuzz
