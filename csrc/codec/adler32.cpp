#include "codec/adler32.h"

#include <algorithm>

namespace atompack::codec {

uint32_t adler32(Bytes bytes) {
  constexpr uint32_t kModulus = 65521;
  constexpr size_t kRun = 5552;  // the most bytes whose sums stay below 2^32 without a reduction
  uint32_t a = 1;
  uint32_t b = 0;
  while (!bytes.empty()) {
    const Bytes run = bytes.first(std::min(kRun, bytes.size()));
    for (const std::byte byte : run) {
      a += static_cast<uint32_t>(byte);
      b += a;
    }
    a %= kModulus;
    b %= kModulus;
    bytes = bytes.subspan(run.size());
  }
  return b << 16 | a;
}

}  // namespace atompack::codec
