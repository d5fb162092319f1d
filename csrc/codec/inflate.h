// Decoding zlib streams (RFC 1950 and 1951).
#pragma once

#include <span>

#include "base/bytes.h"

namespace atompack::codec {

// No stream decodes to more bytes than this times its own (258 bytes for two bits).
constexpr uint64_t kInflateMost = 1032;

// Fills `out`. Throws CorruptFileError unless the stream holds exactly as many bytes and its Adler-32 fits; what
// follows the stream is ignored.
void inflate(Bytes stream, std::span<std::byte> out);

}  // namespace atompack::codec
