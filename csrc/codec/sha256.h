// SHA-256 (FIPS 180-4), by OpenSSL: docs/decisions/checksums.md.
#pragma once

#include <string>

#include "base/bytes.h"

namespace atompack::codec {

// Returns 64 lower-case hexadecimal digits.
std::string sha256_hex(Bytes data);

}  // namespace atompack::codec
