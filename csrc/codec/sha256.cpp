#include "codec/sha256.h"

#include <array>
#include <bit>
#include <vector>

namespace atompack::codec {
namespace {

constexpr size_t kBlockBytes = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

uint32_t load_be(const std::byte* from) { return __builtin_bswap32(load_le<uint32_t>(from)); }

std::array<uint32_t, 64> schedule(const std::byte* block) {
  std::array<uint32_t, 64> words;
  for (size_t t = 0; t < 16; ++t) words[t] = load_be(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t a = words[t - 15];
    const uint32_t b = words[t - 2];
    const uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    words[t] = words[t - 16] + s0 + words[t - 7] + s1;
  }
  return words;
}

void absorb(State& state, const std::byte* block) {
  const std::array<uint32_t, 64> words = schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + words[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const State add = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += add[i];
}

// What follows the last whole block: the rest, a one bit, zeros, and the length in bits as 64 bits big-endian.
std::vector<std::byte> padded_end(Bytes data) {
  const Bytes rest = data.subspan(data.size() / kBlockBytes * kBlockBytes);
  std::vector<std::byte> end(rest.begin(), rest.end());
  end.push_back(std::byte{0x80});
  while (end.size() % kBlockBytes != kBlockBytes - 8) end.push_back(std::byte{0});
  end.resize(end.size() + 8);
  store_le(end.data() + end.size() - 8, __builtin_bswap64(uint64_t{data.size()} * 8));
  return end;
}

}  // namespace

std::string sha256_hex(Bytes data) {
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (size_t at = 0; at + kBlockBytes <= data.size(); at += kBlockBytes) absorb(state, data.data() + at);
  const std::vector<std::byte> end = padded_end(data);
  for (size_t at = 0; at < end.size(); at += kBlockBytes) absorb(state, end.data() + at);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> shift & 15];
  }
  return text;
}

}  // namespace atompack::codec
