#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace atompack {
namespace {

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
