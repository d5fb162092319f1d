#include "codec/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace atompack::codec {
namespace {

std::string refusal(Codec codec, int level) {
  try {
    check_level(codec, level);
  } catch (const FieldError& error) {
    return error.what();
  }
  return "";
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
    for (const int level : {min, max, 3}) EXPECT_EQ(refusal(codec, level), "");
    for (const int level : {min - 1, max + 1}) EXPECT_NE(refusal(codec, level), "") << level;
  }
  EXPECT_EQ(refusal(Codec::zstd, 23), "level: expected -131072 to 22 for codec zstd, got 23");
  EXPECT_EQ(refusal(Codec::lz4, -1), "level: expected 0 to 12 for codec lz4, got -1");
}

TEST(Level, EndsOfTheRangesCompress) {
  const std::string text(1000, 'y');
  for (const Codec codec : {Codec::lz4, Codec::zstd}) {
    for (const int level : {level_range(codec).min, level_range(codec).max}) {
      std::vector<std::byte> stored(compressed_bound(codec, text.size()));
      stored.resize(compress(codec, level, as_bytes(text), stored));
      std::vector<std::byte> out(text.size());
      decompress(codec, stored, out);
      EXPECT_EQ(as_text(out), text);
    }
  }
}

}  // namespace
}  // namespace atompack::codec
