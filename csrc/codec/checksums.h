// Checksums: docs/decisions/checksums.md.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace atompack::codec {

// The Adler-32 checksum of RFC 1950 with start value 1, by zlib: docs/decisions/checksums.md.

uint32_t adler32(Bytes bytes);

// The checksum CRC-32C (Castagnoli, RFC 3720): docs/decisions/checksums.md.

// Continues from the checksum of the bytes before: crc32c(b, crc32c(a)) is that of a and b in one piece.
uint32_t crc32c(Bytes bytes, uint32_t before = 0);

// The same without the processor's instruction.
uint32_t crc32c_by_table(Bytes bytes, uint32_t before = 0);

// SHA-256 (FIPS 180-4), by OpenSSL: docs/decisions/checksums.md.

// Returns 64 lower-case hexadecimal digits.
std::string sha256_hex(Bytes data);

}  // namespace atompack::codec
