// Decoding of zlib streams (RFC 1950 and 1951).
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"

namespace atompack::codec {

// Maximum ratio of decoded to stored bytes (258 bytes from two bits).
constexpr uint64_t kMaxInflateRatio = 1032;

// Fills `out`. Throws CorruptFileError unless the stream holds exactly out.size() bytes with a matching Adler-32; bytes
// after the stream are ignored.
void inflate(Bytes stream, std::span<std::byte> out);

// Decoding of zlib streams of unknown length, as a whole.
constexpr size_t kMaxInflatedBytes = size_t{256} << 20;

// Decodes a zlib stream (RFC 1950) into `memory`, which is reused from call to call, and returns a view of it. Throws
// CorruptFileError unless it is complete, its Adler-32 matches, and it has at most kMaxInflatedBytes.
Bytes inflate_whole(Bytes stream, std::vector<std::byte>& memory);

}  // namespace atompack::codec
