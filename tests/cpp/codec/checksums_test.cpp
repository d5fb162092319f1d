#include "codec/checksums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "byte_string.h"

namespace atompack::codec {
namespace {

using test::ByteString;

// The definition, with a reduction at every byte.
uint32_t slow_adler32(Bytes bytes) {
  uint64_t a = 1;
  uint64_t b = 0;
  for (const std::byte byte : bytes) {
    a = (a + static_cast<uint64_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return static_cast<uint32_t>(b << 16 | a);
}

TEST(Adler32, KnownValues) {
  EXPECT_EQ(adler32({}), 1U);
  EXPECT_EQ(adler32(ByteString("a").bytes()), 0x00620062U);
  EXPECT_EQ(adler32(ByteString("Wikipedia").bytes()), 0x11E60398U);
}

TEST(Adler32, HoldsWhereSumsWouldOverflow) {
  ByteString worst;
  for (int i = 0; i < 3 * 5552 + 7; ++i) worst.put<uint8_t>(0xFF);
  for (const size_t size : {size_t{5551}, size_t{5552}, size_t{5553}, size_t{11104}, worst.size()}) {
    EXPECT_EQ(adler32(worst.bytes().first(size)), slow_adler32(worst.bytes().first(size))) << size;
  }
}

using test::ByteString;

// The definition, bit by bit.
uint32_t slow_crc32c(Bytes bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(size_t n) {
  std::mt19937_64 random(n);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(ByteString("123456789").bytes()), 0xE3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8A9136AAU);                   // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43U);  // the same
}

TEST(Crc32c, AllWaysAgreeAtAnyLength) {
  const auto bytes = random_bytes(9000);
  for (const size_t n : {1, 7, 8, 9, 15, 64, 4079, 4080, 4081, 4095, 4096, 4104, 8160, 8167, 9000}) {
    const Bytes some(bytes.data() + n % 5, n - std::min<size_t>(n, n % 5));
    EXPECT_EQ(crc32c(some), slow_crc32c(some)) << n;
    EXPECT_EQ(crc32c_by_table(some), slow_crc32c(some)) << n;
  }
}

TEST(Crc32c, GoesOnFromTheBytesBefore) {
  const auto bytes = random_bytes(5000);
  const Bytes all(bytes);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{40}, size_t{4096}, all.size()}) {
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
    EXPECT_EQ(crc32c_by_table(all.subspan(cut), crc32c_by_table(all.first(cut))), crc32c(all)) << cut;
  }
}

std::string hash_of(std::string_view text) { return sha256_hex(as_bytes(text)); }

TEST(Sha256, IsInHexadecimalDigits) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace atompack::codec
