#include "codec/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "codec/all_codecs.h"
#include "codec/compress.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

TEST(Codec, TheSizeMustBeExact) {
  const ByteString raw = test::sample(300);
  for (const Codec codec : kAllCodecs) {
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

TEST(Codec, DecompressesWhatItCompressed) {
  for (const Codec codec : {Codec::none, Codec::lz4, Codec::zstd}) {
    for (const int level : {-131072, -7, 0, 1, 3, 9, 12, 22, 99}) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'000}}) {
        const test::ByteString raw = test::sample(size);
        std::vector<std::byte> unit(compressed_bound(codec, size));
        unit.resize(compress(codec, level, raw.bytes(), unit));
        EXPECT_LE(size, decoded_bound(codec, unit));
        std::vector<std::byte> back(size);
        decompress(codec, unit, back);
        EXPECT_EQ(as_text(back), as_text(raw.bytes())) << name_of(codec) << ' ' << level << ' ' << size;
      }
    }
  }
}

TEST(Codec, LevelsAreTheLibrariesOwn) {
  test::ByteString raw;
  uint32_t random = 1;
  for (int i = 0; i < 100'000; ++i) {
    random = random * 1664525 + 1013904223;
    raw.put(static_cast<uint8_t>((random >> 24) % 5));
  }
  const auto size = [&](Codec codec, int level) {
    std::vector<std::byte> unit(compressed_bound(codec, raw.size()));
    return compress(codec, level, raw.bytes(), unit);
  };
  EXPECT_LT(size(Codec::lz4, 12), size(Codec::lz4, 0));
  EXPECT_LT(size(Codec::zstd, 19), size(Codec::zstd, -7));
}

TEST(Codec, Lz4TakesLessThanTwoGigabytes) { EXPECT_THROW(compressed_bound(Codec::lz4, uint64_t{1} << 31), FieldError); }

std::string refusal(Codec codec, int level) {
  return test::message_of<FieldError>([&] { check_level(codec, level); });
}

TEST(Level, RangesAreThoseOfTheLibraries) {
  EXPECT_EQ(level_range(Codec::zstd).min, -131072);
  EXPECT_EQ(level_range(Codec::zstd).max, 22);
  EXPECT_EQ(level_range(Codec::lz4).min, 0);
  EXPECT_EQ(level_range(Codec::lz4).max, 12);
}

TEST(Level, OthersAreRefused) {
  for (const Codec codec : {Codec::none, Codec::lz4, Codec::zstd}) {
    const auto [min, max] = level_range(codec);
    for (const int level : {min, max, 3}) EXPECT_NO_THROW(check_level(codec, level));
    for (const int level : {min - 1, max + 1}) EXPECT_THROW(check_level(codec, level), FieldError) << level;
  }
  EXPECT_EQ(refusal(Codec::zstd, 23), "level: expected -131072 to 22 for codec zstd, got 23");
  EXPECT_EQ(refusal(Codec::lz4, -1), "level: expected 0 to 12 for codec lz4, got -1");
}

}  // namespace
}  // namespace atompack::codec
