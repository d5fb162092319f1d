#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "byte_string.h"
#include "message_of.h"

namespace atompack {
namespace {

using test::ByteString;
using test::corrupt;

TEST(LoadLe, ReadsUnalignedLittleEndianValues) {
  const ByteString bytes{0xFF, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
  EXPECT_EQ(load_le<uint16_t>(bytes.bytes().data() + 1), 0x0201);
  EXPECT_EQ(load_le<uint64_t>(bytes.bytes().data() + 1), 0x0807060504030201U);
}

TEST(AsText, ViewsBytesIncludingNul) {
  const ByteString bytes(std::string_view("a\0b", 3));
  EXPECT_EQ(as_text(bytes.bytes()), std::string_view("a\0b", 3));
  EXPECT_EQ(as_text({}), "");
}

TEST(ByteCursor, WalksToTheLastByte) {
  ByteString bytes;
  bytes.put<uint32_t>(7).put<int32_t>(-2).put<double>(0.5).put<uint8_t>(9);
  ByteCursor cursor(bytes.bytes());
  EXPECT_EQ(cursor.read_le<uint32_t>("a"), 7U);
  EXPECT_EQ(cursor.read_le<int32_t>("b"), -2);
  EXPECT_EQ(cursor.read_le<double>("c"), 0.5);
  EXPECT_EQ(cursor.position(), 16U);
  EXPECT_EQ(cursor.remaining(), 1U);
  EXPECT_EQ(cursor.take(1, "d").size(), 1U);
  EXPECT_EQ(cursor.remaining(), 0U);
}

TEST(ByteCursor, TakesNothingFromNothing) {
  ByteCursor cursor{Bytes{}};
  EXPECT_TRUE(cursor.take(0, "nothing").empty());
  EXPECT_EQ(corrupt([&] { cursor.take(1, "kind"); }), "kind: expected 1 bytes, got 0 (offset 0)");
}

TEST(ByteCursor, RefusesToRunPastTheEndAndStaysWhereItWas) {
  const ByteString bytes{1, 2, 3};
  ByteCursor cursor(bytes.bytes());
  cursor.take(1, "kind");
  EXPECT_EQ(corrupt([&] { cursor.read_le<uint32_t>("length"); }), "length: expected 4 bytes, got 2 (offset 1)");
  EXPECT_EQ(corrupt([&] { cursor.take(std::numeric_limits<uint64_t>::max(), "payload"); }),
            "payload: expected 18446744073709551615 bytes, got 2 (offset 1)");
  EXPECT_EQ(cursor.position(), 1U);
  EXPECT_EQ(cursor.read_le<uint16_t>("rest"), 0x0302);
}

TEST(Buffer, GrowsAndKeepsWhatIsThere) {
  Buffer buffer;
  std::memcpy(buffer.extend(3, 0), "abc", 3);
  for (int i = 0; i < 1000; ++i) *buffer.extend(1, 0) = std::byte('x');
  EXPECT_EQ(buffer.size(), 1003U);
  EXPECT_EQ(std::memcmp(buffer.data(), "abcx", 4), 0);
  EXPECT_EQ(buffer.bytes().size(), 1003U);
}

TEST(Buffer, KeepsItsMemoryWhenItShrinks) {
  Buffer buffer;
  buffer.extend(10, 500);
  EXPECT_EQ(buffer.capacity(), 500U);
  buffer.shrink(2);
  EXPECT_EQ(buffer.size(), 2U);
  EXPECT_EQ(buffer.capacity(), 500U);
}

}  // namespace
}  // namespace atompack
