#include "codec/sha256.h"

#include <openssl/sha.h>

#include <array>

#include "base/error.h"

namespace atompack::codec {

std::string sha256_hex(Bytes data) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  if (SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data()) == nullptr) {
    throw InternalError("SHA-256: OpenSSL is configured without it");
  }
  std::string text;
  for (const unsigned char byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

}  // namespace atompack::codec
