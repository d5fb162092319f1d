#include <gtest/gtest.h>

#include "codec/all_codecs.h"
#include "codec/codec.h"
#include "codec/compress.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

std::vector<std::byte> front_of(Codec codec, Bytes stored, size_t size) {
  std::vector<std::byte> out(size);  // of its own length, so that a sanitizer sees every step over its end
  decompress_front(codec, stored, out);
  return out;
}

bool is_front(Bytes front, const ByteString& raw) { return std::ranges::equal(front, raw.bytes().first(front.size())); }

TEST(DecompressFront, GivesTheFirstBytes) {
  const ByteString raw = test::sample(300'000);
  for (const Codec codec : kAllCodecs) {
    const ByteString stored = test::unit_of(codec, raw.bytes());
    for (const size_t size : {0, 1, 7, 300, 4096, 131'071, 131'072, 131'073, 299'999, 300'000}) {
      EXPECT_TRUE(is_front(front_of(codec, stored.bytes(), size), raw)) << name_of(codec) << ' ' << size;
    }
  }
}

TEST(DecompressFront, OfLongRunsAndOfNothing) {
  const ByteString zeros = ByteString().zeros(500'000);
  for (const Codec codec : kAllCodecs) {
    EXPECT_TRUE(is_front(front_of(codec, test::unit_of(codec, zeros.bytes()).bytes(), 70'001), zeros));
    EXPECT_TRUE(front_of(codec, test::unit_of(codec, {}).bytes(), 0).empty());
  }
}

TEST(DecompressFront, FramesMayFollowOneAnother) {
  ByteString raw = test::sample(1000), stored = test::zstd_unit(raw.bytes());
  stored.append(test::zstd_unit(raw.bytes(), {.level = 3, .content_size = false, .checksum = true}));
  raw.append(test::sample(1000));
  for (const size_t size : {999, 1000, 1001, 2000}) {
    EXPECT_TRUE(is_front(front_of(Codec::zstd, stored.bytes(), size), raw)) << size;
  }
  EXPECT_EQ(corrupt([&] { front_of(Codec::zstd, stored.bytes(), 2001); }), "zstd: expected 2001 bytes, got 2000");
}

// Frames claim a window of any size; memory for it is not taken at its word.
TEST(DecompressFront, OfFramesWithWindowsThatTheLibraryRefuses) {
  const ByteString head = ByteString().put<uint32_t>(0xFD2FB528), body{0x19, 0, 0, 'a', 'b', 'c'};
  for (const int window_log : {10, 15, 26, 27, 28, 31, 41}) {
    ByteString stored = head;
    stored.append(ByteString{0, (window_log - 10) << 3}).append(body);
    if (window_log > 31) {
      EXPECT_THROW(front_of(Codec::zstd, stored.bytes(), 2), CorruptFileError);
      continue;
    }
    EXPECT_EQ(as_text(front_of(Codec::zstd, stored.bytes(), 2)), "ab") << window_log;
    EXPECT_EQ(corrupt([&] { front_of(Codec::zstd, stored.bytes(), 4); }), "zstd: expected 4 bytes, got 3");
  }
}

TEST(DecompressFront, RefusesToGiveMoreThanThereIs) {
  const ByteString raw = test::sample(300);
  for (const Codec codec : kAllCodecs) {
    const ByteString stored = test::unit_of(codec, raw.bytes());
    for (const size_t size : {301, 10'000}) {
      EXPECT_THROW(front_of(codec, stored.bytes(), size), CorruptFileError) << name_of(codec) << ' ' << size;
    }
  }
  EXPECT_EQ(corrupt([&] { front_of(Codec::none, raw.bytes(), 301); }), "stored bytes: expected at least 301, got 300");
}

// Nothing past the front is examined: a unit that was cut gives its front or an error, and nothing else.
TEST(DecompressFront, OfUnitsThatWereCut) {
  const ByteString raw = test::sample(2000);
  for (const Codec codec : kAllCodecs) {
    const ByteString stored = test::unit_of(codec, raw.bytes());
    int given = 0, refused = 0;
    for (size_t size = 0; size < stored.size(); ++size) {
      const std::vector<std::byte> cut(stored.bytes().begin(), stored.bytes().begin() + static_cast<long>(size));
      try {
        EXPECT_TRUE(is_front(front_of(codec, cut, 100), raw)) << name_of(codec) << ' ' << size;
        ++given;
      } catch (const CorruptFileError&) {
        ++refused;
      }
    }
    EXPECT_GE(refused, 10) << name_of(codec);
    if (codec != Codec::zstd) {  // whose blocks are decoded whole
      EXPECT_GE(given, 10) << name_of(codec);
    }
  }
}

TEST(DecompressFront, AnErrorLeavesTheContextUsable) {
  const ByteString raw = test::sample(5000), stored = test::zstd_unit(raw.bytes());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(front_of(Codec::zstd, stored.bytes().first(stored.size() / 2), 5000), CorruptFileError);
    EXPECT_TRUE(is_front(front_of(Codec::zstd, stored.bytes(), 10), raw));  // leaves off in the middle
    std::vector<std::byte> whole(5000);
    decompress(Codec::zstd, stored.bytes(), whole);
    EXPECT_TRUE(is_front(whole, raw));
  }
}

TEST(DecompressFront, UnknownCodecIsOurBug) {
  EXPECT_THROW(decompress_front(static_cast<Codec>(3), {}, {}), InternalError);
}

}  // namespace
}  // namespace atompack::codec
