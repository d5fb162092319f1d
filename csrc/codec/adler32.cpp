#include "codec/adler32.h"

#include <algorithm>

namespace atompack::codec {
namespace {

constexpr size_t kBlock = 32;

// A whole block in sums that the compiler turns into vector instructions: byte by byte each addition waits for the
// last.
void add_block(const std::byte* block, uint32_t& a, uint32_t& b) {
  uint32_t sum = 0;
  uint32_t weighted = 0;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const auto byte = static_cast<uint32_t>(block[i]);
    sum += byte;
    weighted += (kBlock - i) * byte;
  }
  b += kBlock * a + weighted;
  a += sum;
}

}  // namespace

uint32_t adler32(Bytes bytes) {
  constexpr uint32_t kModulus = 65521;
  constexpr size_t kRun = 5552;  // the most bytes whose sums stay below 2^32 without a reduction
  uint32_t a = 1;
  uint32_t b = 0;
  while (!bytes.empty()) {
    const Bytes run = bytes.first(std::min(kRun, bytes.size()));
    size_t at = 0;
    for (; run.size() - at >= kBlock; at += kBlock) add_block(run.data() + at, a, b);
    for (; at < run.size(); ++at) b += a += static_cast<uint32_t>(run[at]);
    a %= kModulus;
    b %= kModulus;
    bytes = bytes.subspan(run.size());
  }
  return b << 16 | a;
}

}  // namespace atompack::codec
