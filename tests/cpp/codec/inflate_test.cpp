#include "codec/inflate.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <optional>
#include <random>

#include "message_of.h"

namespace atompack::codec {
namespace {

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

std::optional<Buffer> inflated(Bytes stream, size_t size) {
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
        ASSERT_EQ(inflated(stream, data.size()), data) << level << ' ' << strategy << ' ' << data.size();
        ASSERT_LE(data.size(), kMaxInflateRatio * stream.size());
      }
    }
  }
}

TEST(Inflate, WhatFollowsIsIgnored) {
  Buffer stream = deflated(Buffer(500, std::byte{3}), 6, Z_DEFAULT_STRATEGY);
  stream.resize(stream.size() + 20, std::byte{0xFF});
  EXPECT_EQ(inflated(stream, 500), Buffer(500, std::byte{3}));
}

TEST(Inflate, RefusesAnotherSize) {
  for (const int strategy : {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY}) {
    for (const int level : {0, 6}) {
      const Buffer stream = deflated(Buffer(500, std::byte{3}), level, strategy);
      EXPECT_FALSE(inflated(stream, 499));
      EXPECT_FALSE(inflated(stream, 501));
      EXPECT_FALSE(inflated(stream, 0));
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
    for (size_t size = 0; size < stream.size(); ++size) EXPECT_FALSE(inflated(Bytes(stream).first(size), data.size()));
  }
}

}  // namespace
}  // namespace atompack::codec
