
#include <gtest/gtest.h>

#include <string>

#include "codec/zstd_codec.h"

namespace atompack::codec {
namespace {

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

}  // namespace
}  // namespace atompack::codec
