#include "formats/atp/index.h"

#include <gtest/gtest.h>

#include <limits>

#include "byte_string.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

TEST(IndexEntry, ReadsItsTwentyBytes) {
  test::ByteString bytes{0xFF};  // unaligned
  bytes.put<uint64_t>(8192).put<uint32_t>(94).put<uint32_t>(100).put<uint32_t>(2);
  const IndexEntry entry = IndexEntry::decode(bytes.bytes().data() + 1);
  EXPECT_EQ(entry.offset, 8192U);
  EXPECT_EQ(entry.stored_bytes, 94U);
  EXPECT_EQ(entry.decoded_bytes, 100U);
  EXPECT_EQ(entry.n_atoms, 2U);
}

TEST(IndexEntry, AcceptsRecordsBetweenTheBounds) {
  EXPECT_NO_THROW((IndexEntry{8192, 808, 0, 0}.validate(8192, 9000)));
  EXPECT_NO_THROW((IndexEntry{9000, 0, 0, 0}.validate(8192, 9000)));
}

TEST(IndexEntry, RefusesRecordsThatReachOutside) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const IndexEntry outside[] = {{8191, 1, 0, 0}, {8192, 809, 0, 0},        {9001, 0, 0, 0},
                                {kMax, 1, 0, 0}, {8193, 0xFFFFFFFF, 0, 0}, {kMax - 0xFFFFFFFE, 0xFFFFFFFF, 0, 0}};
  for (const IndexEntry& entry : outside) {
    EXPECT_EQ(test::corrupt([&] { entry.validate(8192, 9000); }),
              cat("index entry: expected a record between 8192 and 9000, got ", entry.stored_bytes, " bytes at ",
                  entry.offset));
  }
}

}  // namespace
}  // namespace atompack::atp
