// Decoding of zlib streams of unknown length, as a whole.
#pragma once

#include <vector>

#include "base/bytes.h"

namespace atompack::codec {

constexpr size_t kMaxInflatedBytes = size_t{256} << 20;

// Decodes a zlib stream (RFC 1950) into `memory`, which is reused from call to call, and returns a view of it. Throws
// CorruptFileError unless it is complete, its Adler-32 matches, and it has at most kMaxInflatedBytes.
Bytes inflate_whole(Bytes stream, std::vector<std::byte>& memory);

}  // namespace atompack::codec
