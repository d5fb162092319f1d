// The checksum CRC-32C (Castagnoli, RFC 3720): docs/decisions/checksums.md.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::codec {

// Continues from the checksum of the bytes before: crc32c(b, crc32c(a)) is that of a and b in one piece.
uint32_t crc32c(Bytes bytes, uint32_t before = 0);

// The same without the processor's instruction.
uint32_t crc32c_by_table(Bytes bytes, uint32_t before = 0);

}  // namespace atompack::codec
