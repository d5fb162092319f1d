#include "formats/torch_cache/hdf5/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "formats/torch_cache/heap_bytes.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::ByteString;
using test::corrupt;
using Buffer = std::vector<std::byte>;

// Four rows of five bytes: row r is 10 r, 10 r + 1, ...
ByteString plain() {
  ByteString bytes;
  for (int row = 0; row < 4; ++row) {
    for (int k = 0; k < 5; ++k) bytes.put(static_cast<uint8_t>(10 * row + k));
  }
  return bytes;
}

ByteString shuffled() {
  ByteString bytes;
  for (int k = 0; k < 5; ++k) {
    for (int row = 0; row < 4; ++row) bytes.put(static_cast<uint8_t>(10 * row + k));
  }
  return bytes;
}

ByteString deflated(const ByteString& bytes) {
  Buffer out(compressBound(bytes.size()));
  uLongf size = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.bytes().data()),
           bytes.size());
  out.resize(size);
  return ByteString().append(out);
}

constexpr ChunkLayout kPlain{4, 5, std::nullopt, std::nullopt};
constexpr ChunkLayout kShuffled{4, 5, 0, std::nullopt};
constexpr ChunkLayout kDeflated{4, 5, std::nullopt, 0};
constexpr ChunkLayout kBoth{4, 5, 0, 1};

std::string unpacked(const ChunkLayout& layout, const ByteString& stored, uint32_t mask, uint64_t n_rows = 3) {
  const ByteRange ranges[] = {{3, 2}, {0, 1}};
  Buffer out(n_rows * total_length(ranges));
  Buffer kept;
  unpack_chunk(layout, {stored.bytes(), mask}, n_rows, ranges, out, kept);
  std::string text;
  for (const std::byte byte : out) text += cat(static_cast<int>(byte), ' ');
  return text;
}

TEST(Chunk, FiltersAreUndone) {
  const std::string expected = "3 4 0 13 14 10 23 24 20 ";
  EXPECT_EQ(unpacked(kPlain, plain(), 0), expected);
  EXPECT_EQ(unpacked(kShuffled, shuffled(), 0), expected);
  EXPECT_EQ(unpacked(kDeflated, deflated(plain()), 0), expected);
  EXPECT_EQ(unpacked(kBoth, deflated(shuffled()), 0), expected);
  EXPECT_EQ(unpacked(kPlain, plain(), 0, 0), "");
}

TEST(Chunk, AFilterMayHaveBeenLeftOut) {
  const std::string expected = "3 4 0 13 14 10 23 24 20 ";
  EXPECT_EQ(unpacked(kBoth, deflated(plain()), 1), expected);
  EXPECT_EQ(unpacked(kBoth, shuffled(), 2), expected);
  EXPECT_EQ(unpacked(kBoth, plain(), 3), expected);
}

TEST(Chunk, RefusesOtherSizes) {
  ByteString cut = plain();
  cut.cut(19);
  EXPECT_EQ(corrupt([&] { unpacked(kPlain, cut, 0); }), "chunk: 19 stored bytes hold at most 19, expected 20");
  EXPECT_EQ(corrupt([&] { unpacked(kPlain, plain().zeros(1), 0); }),
            "chunk: 21 stored bytes hold at most 21, expected 20");
  EXPECT_EQ(corrupt([&] { unpacked(kDeflated, deflated(cut), 0); }), "deflate stream: expected 20 bytes, got 19");
}

TEST(Chunk, AClaimedSizeIsHeldAgainstTheStoredBytes) {
  const ChunkLayout large{uint64_t{1} << 40, 5, std::nullopt, 0};
  EXPECT_EQ(corrupt([&] { unpacked(large, deflated(plain()), 0); }).substr(0, 29), "chunk: 28 stored bytes hold a");
  const ChunkLayout endless{~uint64_t{0}, 5, std::nullopt, 0};
  EXPECT_NE(corrupt([&] { unpacked(endless, deflated(plain()), 0); }).find("overflows"), std::string::npos);
}

}  // namespace
}  // namespace atompack::torch_cache
