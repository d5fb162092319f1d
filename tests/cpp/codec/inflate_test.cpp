#include "codec/inflate.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <optional>
#include <random>

#include "byte_string.h"
#include "message_of.h"

namespace atompack::codec {
namespace {

using test::ByteString;
using test::corrupt;
using Buffer = std::vector<std::byte>;

Buffer deflated(Bytes data, int level, int strategy) {
  z_stream stream{};
  deflateInit2(&stream, level, Z_DEFLATED, 15, 8, strategy);
  Buffer out(compressBound(data.size()) + 64);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// What zlib makes of it: the bytes, or nothing unless there are as many as expected.
std::optional<Buffer> by_zlib(Bytes stream, size_t size) {
  Buffer out(size + 1);
  uLongf found = out.size();
  const int status = uncompress(reinterpret_cast<Bytef*>(out.data()), &found,
                                reinterpret_cast<const Bytef*>(stream.data()), stream.size());
  if (status != Z_OK || found != size) return std::nullopt;
  out.resize(size);
  return out;
}

std::optional<Buffer> by_us(Bytes stream, size_t size) {
  Buffer out(size);
  try {
    inflate(stream, out);
    return out;
  } catch (const CorruptFileError&) {
    return std::nullopt;
  }
}

std::vector<Buffer> samples() {
  std::mt19937 random(7);
  std::vector<Buffer> all = {{}, Buffer(1), Buffer(100000), Buffer(300, std::byte{7})};
  Buffer noise(70000), few(70000), periods(70000), skewed(200000);
  for (auto& byte : noise) byte = static_cast<std::byte>(random());
  for (auto& byte : few) byte = static_cast<std::byte>(random() % 5);
  for (size_t i = 0; i < periods.size(); ++i) periods[i] = static_cast<std::byte>(i % 7 * (i / 9000));
  // Frequencies like these make the longest codes there are.
  for (auto& byte : skewed) byte = static_cast<std::byte>(__builtin_clz(random() | 1) * 8 + random() % 3);
  all.insert(all.end(), {noise, few, periods, skewed});
  return all;
}

TEST(Inflate, GivesBackWhatZlibStored) {
  for (const Buffer& data : samples()) {
    for (const int level : {0, 1, 5, 9}) {
      for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE, Z_FILTERED}) {
        const Buffer stream = deflated(data, level, strategy);
        ASSERT_EQ(by_us(stream, data.size()), data) << level << ' ' << strategy << ' ' << data.size();
        ASSERT_LE(data.size(), kInflateMost * stream.size());
      }
    }
  }
}

TEST(Inflate, WhatFollowsIsIgnored) {
  Buffer stream = deflated(Buffer(500, std::byte{3}), 6, Z_DEFAULT_STRATEGY);
  stream.resize(stream.size() + 20, std::byte{0xFF});
  EXPECT_EQ(by_us(stream, 500), Buffer(500, std::byte{3}));
}

TEST(Inflate, RefusesAnotherSize) {
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY}) {
    for (const int level : {0, 6}) {
      const Buffer stream = deflated(Buffer(500, std::byte{3}), level, strategy);
      EXPECT_FALSE(by_us(stream, 499));
      EXPECT_FALSE(by_us(stream, 501));
      EXPECT_FALSE(by_us(stream, 0));
    }
  }
  const Buffer stream = deflated(Buffer(500), 6, Z_DEFAULT_STRATEGY);
  Buffer out(501);
  EXPECT_NE(corrupt([&] { inflate(stream, out); }).find("deflate stream: expected 501 bytes, got 500"),
            std::string::npos);
}

TEST(Inflate, RefusesEveryTruncation) {
  for (const Buffer& data : samples()) {
    if (data.size() > 1000) continue;
    const Buffer stream = deflated(data, 6, Z_DEFAULT_STRATEGY);
    for (size_t size = 0; size < stream.size(); ++size) EXPECT_FALSE(by_us(Bytes(stream).first(size), data.size()));
  }
}

TEST(Inflate, AgreesWithZlibOnDamage) {
  std::mt19937 random(11);
  Buffer data(600);
  for (auto& byte : data) byte = static_cast<std::byte>(random() % 9 * (random() % 3));
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_FIXED}) {
    const Buffer stream = deflated(data, 6, strategy);
    for (size_t bit = 0; bit < 8 * stream.size(); ++bit) {
      Buffer changed = stream;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_EQ(by_us(changed, data.size()), by_zlib(changed, data.size())) << bit;
    }
  }
}

TEST(Inflate, NamesWhatIsWrong) {
  Buffer out(4);
  const auto error_of = [&](const ByteString& stream) { return corrupt([&] { inflate(stream.bytes(), out); }); };
  EXPECT_EQ(error_of({0x78}), "deflate stream: expected a header of 2 bytes, got 1 (offset 0)");
  EXPECT_EQ(error_of({0x79, 0x01}), "deflate stream: expected a zlib header, got another (offset 0)");
  EXPECT_EQ(error_of({0x78, 0x20}), "deflate stream: expected a zlib header, got another (offset 0)");
  EXPECT_EQ(error_of({0x78, 0x01, 0x07}), "deflate stream: block: expected one of type 0, 1 or 2, got 3 (offset 3)");
  EXPECT_EQ(error_of({0x78, 0x01, 0x01, 4, 0, 0, 0}),
            "deflate stream: stored block: its two lengths do not agree (offset 7)");
  EXPECT_EQ(error_of({0x78, 0x01, 0x01, 4, 0, 0xFB, 0xFF, 1, 2, 3, 4, 0, 0, 0, 0}),
            "deflate stream: Adler-32: expected 0, got 1572875 (offset 11)");
}

}  // namespace
}  // namespace atompack::codec
