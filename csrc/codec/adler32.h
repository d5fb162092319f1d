// The Adler-32 checksum of RFC 1950 with start value 1, by zlib: docs/decisions/checksums.md.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::codec {

uint32_t adler32(Bytes bytes);

}  // namespace atompack::codec
