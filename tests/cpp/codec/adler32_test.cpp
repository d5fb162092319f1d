#include "codec/checksums.h"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace atompack::codec
