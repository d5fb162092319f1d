#include "codec/codec.h"

#include <gtest/gtest.h>

#include "codec/compress.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

constexpr Codec kAll[] = {Codec::none, Codec::lz4, Codec::zstd};

TEST(Codec, Names) {
  EXPECT_EQ(name_of(Codec::none), "none");
  EXPECT_EQ(name_of(Codec::lz4), "lz4");
  EXPECT_EQ(name_of(Codec::zstd), "zstd");
}

TEST(Codec, GivesBackWhatWasStored) {
  for (const Codec codec : kAll) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{300}, size_t{200000}}) {
      const ByteString raw = test::sample(size);
      const ByteString stored = test::unit_of(codec, raw.bytes());
      std::vector<std::byte> out(size);
      decompress(codec, stored.bytes(), out);
      EXPECT_TRUE(std::ranges::equal(out, raw.bytes())) << name_of(codec) << ' ' << size;
      EXPECT_GE(decoded_bound(codec, stored.bytes()), size) << name_of(codec);
    }
  }
}

TEST(Codec, TheSizeMustBeExact) {
  const ByteString raw = test::sample(300);
  for (const Codec codec : kAll) {
    const ByteString stored = test::unit_of(codec, raw.bytes());
    for (const size_t wrong : {size_t{0}, size_t{299}, size_t{301}, size_t{1000}}) {
      std::vector<std::byte> out(wrong);
      EXPECT_THROW(decompress(codec, stored.bytes(), out), CorruptFileError) << name_of(codec) << ' ' << wrong;
    }
  }
}

TEST(Codec, NoneIsBoundByItself) {
  const ByteString stored{1, 2, 3};
  EXPECT_EQ(decoded_bound(Codec::none, stored.bytes()), 3U);
  std::byte out[2];
  EXPECT_EQ(corrupt([&] { decompress(Codec::none, stored.bytes(), out); }), "stored bytes: expected 2, got 3");
}

TEST(Codec, DecompressingIsMoreWorkThanCopying) {
  EXPECT_EQ(work_factor(Codec::none), 1);
  EXPECT_GT(work_factor(Codec::lz4), 1);
  EXPECT_GT(work_factor(Codec::zstd), work_factor(Codec::lz4));
}

TEST(Codec, UnknownCodecIsOurBug) {
  const auto unknown = static_cast<Codec>(3);
  EXPECT_THROW(decoded_bound(unknown, {}), InternalError);
  EXPECT_THROW(decompress(unknown, {}, {}), InternalError);
  EXPECT_THROW(work_factor(unknown), InternalError);
  EXPECT_EQ(name_of(unknown), "?");
}

TEST(Codec, TruncatedUnitsAreRefusedAtEveryByte) {
  const ByteString raw = test::sample(300);
  for (const Codec codec : {Codec::lz4, Codec::zstd}) {
    const ByteString stored = test::unit_of(codec, raw.bytes());
    std::vector<std::byte> out(raw.size());
    for (size_t size = 0; size < stored.size(); ++size) {
      EXPECT_THROW(decompress(codec, stored.bytes().first(size), out), CorruptFileError)
          << name_of(codec) << ' ' << size;
    }
  }
}

}  // namespace
}  // namespace atompack::codec
