#include "codec/lz4_codec.h"

#include <gtest/gtest.h>

#include "codec/compress.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

TEST(Lz4Bound, Is255TimesTheBlock) {
  EXPECT_EQ(lz4_decoded_bound({}), 0U);
  EXPECT_EQ(lz4_decoded_bound(ByteString().zeros(10).bytes()), 2550U);
}

TEST(Lz4Bound, HoldsForTheLongestRuns) {
  const ByteString zeros = ByteString().zeros(10'000'000);
  const ByteString stored = test::lz4_unit(zeros.bytes());
  EXPECT_LT(stored.size(), 40000U);  // close to the highest ratio there is
  EXPECT_GE(lz4_decoded_bound(stored.bytes()), zeros.size());
}

TEST(Lz4Bound, IsExactByLengthsAlone) {
  for (const size_t size : {0, 1, 14, 15, 16, 269, 270, 271, 1000, 300'000}) {
    EXPECT_EQ(lz4_decoded_bytes(test::lz4_unit(test::sample(size).bytes()).bytes()), size);
    EXPECT_EQ(lz4_decoded_bytes(test::lz4_unit(ByteString().zeros(size).bytes()).bytes()), size);
  }
}

TEST(Lz4Bound, NeedsAWholeBlock) {
  const ByteString stored = test::lz4_unit(ByteString().zeros(1000).bytes());
  size_t n_refused = 0;
  for (size_t size = 0; size < stored.size(); ++size) {
    try {
      EXPECT_LT(lz4_decoded_bytes(stored.bytes().first(size)), 1000U);  // its end may look like that of a block
    } catch (const CorruptFileError&) {
      ++n_refused;
    }
  }
  EXPECT_GE(n_refused, stored.size() - 2);
}

TEST(Lz4Decompress, DecodesAHandMadeBlock) {
  // Three literals and a match of 15 + 2 + 4 bytes at distance 3, then twelve literals.
  ByteString block{0x3F, 'a', 'b', 'c', 3, 0, 2, 0xC0};
  block.append(ByteString("lmnopqrstuvw"));
  std::vector<std::byte> out(36);
  lz4_decompress(block.bytes(), out);
  EXPECT_EQ(as_text(out), "abcabcabcabcabcabcabcabclmnopqrstuvw");
}

TEST(Lz4Decompress, SaysWhatDoesNotFit) {
  const ByteString block{0x30, 'a', 'b', 'c'};
  std::vector<std::byte> out(2);
  EXPECT_EQ(corrupt([&] { lz4_decompress(block.bytes(), out); }), "lz4 block: expected 2 bytes, got a damaged block");
  out.resize(4);
  EXPECT_EQ(corrupt([&] { lz4_decompress(block.bytes(), out); }), "lz4 block: expected 4 bytes, got 3");
}

TEST(Lz4Decompress, RefusesAMatchBeforeTheStart) {
  ByteString block{0x3F, 'a', 'b', 'c', 4, 0, 2, 0xC0};
  block.append(ByteString("lmnopqrstuvw"));
  std::vector<std::byte> out(36);
  EXPECT_EQ(corrupt([&] { lz4_decompress(block.bytes(), out); }), "lz4 block: expected 36 bytes, got a damaged block");
}

TEST(Lz4Decompress, RefusesSizesThatTheLibraryCannotTake) {
  const std::byte one{0};
  const Bytes huge(&one, size_t{1} << 31);  // only its size is looked at
  EXPECT_EQ(corrupt([&] { lz4_decompress(huge, {}); }), "lz4 block: expected at most 2147483647 bytes, got 2147483648");
}

}  // namespace
}  // namespace atompack::codec
