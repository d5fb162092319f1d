#include <gtest/gtest.h>

#include "codec/compress.h"
#include "codec/zstd_codec.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

constexpr uint64_t kPlenty = 1 << 20;

TEST(ZstdUnsized, GivesBackFramesOfAnyLength) {
  for (const size_t size : {0, 1, 1000, 131'072, 131'073, 500'000}) {
    for (const bool content_size : {true, false}) {
      const ByteString raw = test::sample(size);
      const ByteString stored = test::zstd_unit(raw.bytes(), {.level = 3, .content_size = content_size});
      EXPECT_EQ(as_text(zstd_decompress_unsized(stored.bytes(), kPlenty).bytes()), as_text(raw.bytes())) << size;
      EXPECT_EQ(zstd_decompress_unsized(stored.bytes(), size).size, size);
    }
  }
}

TEST(ZstdUnsized, JoinsFrames) {
  ByteString raw = test::sample(3000), stored = test::zstd_unit(raw.bytes());
  stored.append(test::zstd_unit(raw.bytes(), {.level = 1, .content_size = false}));
  raw.append(test::sample(3000));
  EXPECT_EQ(as_text(zstd_decompress_unsized(stored.bytes(), kPlenty).bytes()), as_text(raw.bytes()));
  EXPECT_EQ(zstd_decompress_unsized({}, kPlenty).size, 0);
}

TEST(ZstdUnsized, GivesNoMoreThanIsAllowed) {
  for (const bool content_size : {true, false}) {
    const ByteString stored = test::zstd_unit(ByteString().zeros(300'000).bytes(), {3, content_size, false});
    EXPECT_EQ(corrupt([&] { zstd_decompress_unsized(stored.bytes(), 299'999); }),
              "zstd: expected at most 299999 bytes, got more");
    EXPECT_EQ(corrupt([&] { zstd_decompress_unsized(stored.bytes(), 0); }), "zstd: expected at most 0 bytes, got more");
  }
}

TEST(ZstdUnsized, RefusesFramesThatWereCut) {
  const ByteString stored = test::zstd_unit(test::sample(3000).bytes(), {3, false, true});
  for (size_t size = 1; size < stored.size(); ++size) {
    EXPECT_THROW(zstd_decompress_unsized(stored.bytes().first(size), kPlenty), CorruptFileError) << size;
  }
}

}  // namespace
}  // namespace atompack::codec
