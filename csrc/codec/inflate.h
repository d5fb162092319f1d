// Decoding of zlib streams (RFC 1950 and 1951).
#pragma once

#include <span>

#include "base/bytes.h"

namespace atompack::codec {

// Maximum ratio of decoded to stored bytes (258 bytes from two bits).
constexpr uint64_t kMaxInflateRatio = 1032;

// Fills `out`. Throws CorruptFileError unless the stream holds exactly out.size() bytes with a matching Adler-32; bytes
// after the stream are ignored.
void inflate(Bytes stream, std::span<std::byte> out);

}  // namespace atompack::codec
