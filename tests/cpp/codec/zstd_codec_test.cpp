#include "codec/zstd_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "codec/compress.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;

constexpr uint32_t kMaxBlockBytes = 128 * 1024;
enum BlockType : uint32_t { kRaw, kRepeat, kCompressed, kReserved };

ByteString frame(std::initializer_list<int> header) {
  return ByteString().put<uint32_t>(0xFD2FB528).append(ByteString(header));
}

ByteString block(BlockType type, uint32_t size, bool last, std::string_view body) {
  const uint32_t header = size << 3 | type << 1 | (last ? 1 : 0);
  return ByteString()
      .put(static_cast<uint16_t>(header))
      .put(static_cast<uint8_t>(header >> 16))
      .append(ByteString(body));
}

std::string decoded(const ByteString& stored, size_t size) {
  std::string out(size, '?');
  zstd_decompress(stored.bytes(), std::as_writable_bytes(std::span(out)));
  return out;
}

uint64_t bound(const ByteString& stored) { return zstd_decoded_bound(stored.bytes()); }

TEST(ZstdBound, OfARawBlockIsItsSize) {
  ByteString stored = frame({0x20, 3});  // single segment, content size 3
  stored.append(block(kRaw, 3, true, "abc"));
  EXPECT_EQ(bound(stored), 3U);
  EXPECT_EQ(decoded(stored, 3), "abc");
}

TEST(ZstdBound, OfARepeatedByteIsItsCount) {
  ByteString stored = frame({0x00, 0x38});  // window descriptor, no content size
  stored.append(block(kRepeat, 1000, false, "x")).append(block(kRaw, 1, true, "y"));
  EXPECT_EQ(bound(stored), 1001U);
  EXPECT_EQ(decoded(stored, 1001), std::string(1000, 'x') + "y");
}

TEST(ZstdBound, OfACompressedBlockIs128KiB) {
  const ByteString raw = test::sample(5000);
  EXPECT_EQ(bound(test::zstd_unit(raw.bytes(), {.content_size = false})), kMaxBlockBytes);
  EXPECT_EQ(bound(test::zstd_unit(raw.bytes())), 5000U);
}

TEST(ZstdBound, DoesNotBelieveADeclaredSizeThatBlocksCannotFill) {
  ByteString stored = frame({0xE0});  // single segment, eight bytes of content size
  stored.put<uint64_t>(uint64_t{1} << 40).append(block(kRaw, 3, true, "abc"));
  EXPECT_EQ(bound(stored), 3U);
  std::vector<std::byte> out(3);
  EXPECT_THROW(zstd_decompress(stored.bytes(), out), CorruptFileError);
}

TEST(ZstdBound, RefusesABlockLongerThanAnyMayBe) {
  EXPECT_EQ(bound(frame({0x00, 0x38}).append(block(kRepeat, kMaxBlockBytes, true, "x"))), kMaxBlockBytes);
  for (const BlockType type : {kRaw, kRepeat, kCompressed, kReserved}) {
    EXPECT_EQ(corrupt([&] { bound(frame({0x00, 0x38}).append(block(type, kMaxBlockBytes + 1, true, "x"))); }),
              "zstd block: expected at most 131072 bytes, got 131073 (offset 6)");
  }
}

TEST(ZstdBound, ReadsEveryWidthOfContentSize) {
  const ByteString body = block(kRaw, 0, true, "");
  EXPECT_EQ(bound(frame({0x20, 0}).append(body)), 0U);                       // one byte
  EXPECT_EQ(bound(frame({0x60, 0, 0}).append(body)), 0U);                    // two, plus 256
  EXPECT_EQ(bound(frame({0xA0, 0, 0, 0, 0}).append(body)), 0U);              // four
  EXPECT_EQ(bound(frame({0xE0, 0, 0, 0, 0, 0, 0, 0, 0}).append(body)), 0U);  // eight
  EXPECT_EQ(bound(frame({0x40, 0x38, 0, 0}).append(body)), 0U);              // two, with a window
  ByteString stored = frame({0x60, 1, 0});
  stored.append(block(kRepeat, 1000, true, "x"));
  EXPECT_EQ(bound(stored), 257U);
}

// The library decodes longer ones in one piece.
TEST(ZstdBound, NoBlockIsLargerThanTheWindow) {
  const auto repeated = [](int window, uint32_t size) {
    return bound(frame({0, window}).append(block(kRepeat, size, true, "x")));
  };
  EXPECT_EQ(repeated(0, 1024), 1024U);
  EXPECT_EQ(repeated(0x34, 98304), 98304U);
  EXPECT_EQ(corrupt([&] { repeated(0x34, 98305); }), "zstd block: expected at most 98304 bytes, got 98305 (offset 6)");
  EXPECT_EQ(repeated(0xFF, kMaxBlockBytes), kMaxBlockBytes);
}

TEST(ZstdBound, PassesOverDictionaryIds) {
  const ByteString body = block(kRaw, 1, true, "a");
  EXPECT_EQ(bound(frame({0x21, 9, 1}).append(body)), 1U);
  EXPECT_EQ(bound(frame({0x22, 9, 9, 1}).append(body)), 1U);
  EXPECT_EQ(bound(frame({0x23, 9, 9, 9, 9, 1}).append(body)), 1U);
}

TEST(ZstdBound, AddsUpFramesAndSkipsSkippableOnes) {
  const ByteString part = test::zstd_unit(ByteString("abc").bytes());
  ByteString stored = part;
  stored.put<uint32_t>(0x184D2A5F).put<uint32_t>(4).put<uint32_t>(0xFFFFFFFF).append(part);
  stored.put<uint32_t>(0x184D2A50).put<uint32_t>(0);
  EXPECT_EQ(bound(stored), 6U);
  EXPECT_EQ(decoded(stored, 6), "abcabc");
}

TEST(ZstdBound, FramesOfEveryKindMadeByTheLibrary) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{70000}, size_t{400000}}) {
    const ByteString raw = test::sample(size);
    for (const int level : {-5, 1, 3, 19}) {
      for (const bool content_size : {true, false}) {
        for (const bool checksum : {true, false}) {
          const ByteString stored = test::zstd_unit(raw.bytes(), {level, content_size, checksum});
          const uint64_t most = bound(stored);
          EXPECT_GE(most, size);
          if (content_size) {
            EXPECT_EQ(most, size);
          }
          EXPECT_LE(most, size + 2 * kMaxBlockBytes);
          EXPECT_EQ(decoded(stored, size), as_text(raw.bytes()));
        }
      }
    }
  }
}

TEST(ZstdBound, RefusesAUnitThatIsCutAtAnyByte) {
  EXPECT_EQ(bound({}), 0U);
  // With a window, a dictionary id, a content size and a checksum; one segment; a frame to skip.
  const ByteString raw = block(kRaw, 3, true, "abc");
  const ByteString whole =
      frame({0xC7, 0x38, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}).append(raw).append(ByteString{1, 2, 3, 4});
  const ByteString two = frame({0x20, 6}).append(block(kRaw, 3, false, "abc")).append(raw);
  const ByteString skipped = ByteString().put<uint32_t>(0x184D2A50).put<uint32_t>(1).append(ByteString{7});
  for (const ByteString* unit : {&whole, &two, &skipped}) {
    EXPECT_NO_THROW(bound(*unit));
    for (size_t size = 1; size < unit->size(); ++size) {
      EXPECT_THROW(zstd_decoded_bound(unit->bytes().first(size)), CorruptFileError) << size;
    }
  }
  EXPECT_EQ(corrupt([] { bound({1, 2, 3}); }), "zstd magic: expected 4 bytes, got 3 (offset 0)");
  EXPECT_EQ(corrupt([] { bound({1, 2, 3, 4}); }), "zstd: expected a frame, got other bytes (offset 0)");
  EXPECT_EQ(corrupt([] { bound(frame({0x20, 3}).append(block(kRaw, 3, true, "ab"))); }),
            "zstd block: expected 3 bytes, got 2 (offset 9)");
}

TEST(ZstdBound, SaysWhereGarbageFollowsAFrame) {
  ByteString stored = test::zstd_unit(ByteString("abc").bytes());
  const size_t end = stored.size();
  stored.put<uint32_t>(0x12345678);
  EXPECT_EQ(corrupt([&] { bound(stored); }), cat("zstd: expected a frame, got other bytes (offset ", end, ")"));
}

TEST(ZstdDecompress, ChecksTheChecksum) {
  ByteString stored = test::zstd_unit(test::sample(300).bytes(), {.checksum = true});
  stored.patch<uint8_t>(stored.size() - 1, static_cast<uint8_t>(~load_le<uint8_t>(&stored.bytes().back())));
  EXPECT_THROW(decoded(stored, 300), CorruptFileError);
}

TEST(ZstdDecompress, SaysWhatComesOut) {
  const ByteString stored = test::zstd_unit(ByteString("abc").bytes());
  EXPECT_EQ(corrupt([&] { decoded(stored, 4); }), "zstd: expected 4 bytes, got 3");
  EXPECT_EQ(corrupt([&] { decoded(stored, 2); }), "zstd: Destination buffer is too small");
}

TEST(ZstdDecompress, AnErrorLeavesTheContextUsable) {
  const ByteString good = test::zstd_unit(ByteString("abc").bytes());
  ByteString bad = test::zstd_unit(test::sample(5000).bytes());
  bad.cut(bad.size() - 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(decoded(bad, 5000), CorruptFileError);
    EXPECT_EQ(decoded(good, 3), "abc");
  }
}

TEST(ZstdDecompress, ThreadsHaveContextsOfTheirOwn) {
  const ByteString raw = test::sample(100000);
  const ByteString stored = test::zstd_unit(raw.bytes());
  std::vector<int> right(4);
  std::vector<std::jthread> threads;
  for (int& count : right) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += decoded(stored, raw.size()) == as_text(raw.bytes());
    });
  }
  threads.clear();
  EXPECT_EQ(right, std::vector<int>(4, 20));
}

// Texts that are alike, as trainers want them.
std::vector<std::string> texts(size_t n) {
  std::vector<std::string> all;
  for (size_t i = 0; i < n; ++i) {
    std::string text;
    for (size_t k = 0; k < 40; ++k) text += cat("{\"energy\": ", i * k % 97, ", \"name\": \"molecule ", i, "\"}");
    all.push_back(text);
  }
  return all;
}

std::vector<Bytes> views(const std::vector<std::string>& texts) {
  std::vector<Bytes> all;
  for (const std::string& text : texts) all.push_back(as_bytes(text));
  return all;
}

TEST(ZstdEncoder, WithoutADictionary) {
  const std::string text(1000, 'x');
  const std::vector<std::byte> frame = ZstdEncoder(3, {}).compress(as_bytes(text));
  EXPECT_EQ(zstd_first_frame(frame).content_bytes, 1000u);
  std::string out(1000, ' ');
  zstd_decompress(frame, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, text);
}

TEST(ZstdEncoder, ATrainedDictionaryMakesFramesSmaller) {
  const auto samples = texts(50);
  const auto dictionary = train_zstd_dictionary(views(samples), 2000);
  ASSERT_FALSE(dictionary.empty());
  EXPECT_LE(dictionary.size(), 2000u);
  EXPECT_EQ(as_text(dictionary).substr(0, 4), "\x37\xA4\x30\xEC");
  const Bytes text = as_bytes(samples[7]);
  const auto plain = ZstdEncoder(3, {}).compress(text), with = ZstdEncoder(3, dictionary).compress(text);
  EXPECT_LT(with.size(), plain.size());
  EXPECT_EQ(zstd_first_frame(with).content_bytes, text.size());
  std::vector<std::byte> out(text.size());
  ZstdDictionary(dictionary).decompress(with, out);
  EXPECT_EQ(as_text(out), samples[7]);
  EXPECT_THROW(zstd_decompress(with, out), CorruptFileError) << "frames name their dictionary";
}

TEST(ZstdEncoder, TooLittleToTrainOn) {
  EXPECT_TRUE(train_zstd_dictionary({}, 1024).empty());
  const std::vector<std::string> short_ones(10, "x");
  EXPECT_TRUE(train_zstd_dictionary(views(short_ones), 1024).empty());
}

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
