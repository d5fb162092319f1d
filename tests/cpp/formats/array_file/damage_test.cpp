// A small layer cut at every byte, and with every bit flipped: values or a named error, nothing else.
#include <gtest/gtest.h>

#include <filesystem>

#include "fixtures.h"
#include "formats/array_file/read/reader.h"

namespace atompack::array_file {
namespace {

std::string layer_file(const std::string& name) { return test::contents((test::atlas_fixtures() / name).string()); }

constexpr uint64_t kMostElements = 1 << 16;  // larger claims are the caller's to refuse

// Whether all arrays of a layer can be read.
bool readable(Bytes file) {
  try {
    std::vector<Layer> one;
    one.emplace_back(std::make_shared<io::MemoryBytes>(file, "layer.af"));
    const Layers layers(std::move(one));
    DecodedBlock last;
    for (const std::string& name : layers.names()) {
      const Array array = layers.array(name);
      const uint64_t n = array.n_elements();
      if (n > kMostElements) continue;
      if (array.type == Type::string || array.type == Type::binary) {
        std::vector<std::string> values(n);
        read_strings(layers, array, array.whole(), values, last);
      } else {
        std::vector<std::byte> values(n * item_bytes(array.type));
        read_numbers(layers, array, array.whole(), values, last);
      }
    }
    return true;
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()), "");
    return false;
  }
}

class DamagedLayer : public testing::TestWithParam<const char*> {
 protected:
  // A copy of its own length on the heap, so that a sanitizer sees every step over its end.
  static bool readable_copy(std::string_view file) {
    const std::vector<std::byte> copy(as_bytes(file).begin(), as_bytes(file).end());
    return readable(copy);
  }
};

TEST_P(DamagedLayer, CutAtEveryByte) {
  const std::string file = layer_file(GetParam());
  ASSERT_TRUE(readable_copy(file));
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(readable_copy(std::string_view(file).substr(0, n))) << n;
}

TEST_P(DamagedLayer, EveryBitFlipped) {
  std::string file = layer_file(GetParam());
  size_t n_refused = 0;
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    const char mask = static_cast<char>(1 << (bit % 8));
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
    n_refused += readable_copy(file) ? 0 : 1;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ mask);
  }
  EXPECT_GT(n_refused, file.size());  // one of eight at the least: pointers, counts, tags
  EXPECT_TRUE(readable_copy(file));
}

INSTANTIATE_TEST_SUITE_P(Small, DamagedLayer,
                         testing::Values("tiny_json/t/data.1.af", "tiny_json/station name/data.1.af",
                                         "reject/zstd_ok/v/data.af", "overlay_zstd/grid/data.1.af"));

// What a caller who expects four int32 sees of dataset `d` of a damaged store.
std::string error(const std::string& name) {
  try {
    const Reader reader((test::atlas_fixtures() / "reject" / name / "v" / "data.af").string());
    const Array array = reader.array("d");
    std::vector<int32_t> values(4);
    DecodedBlock last;
    reader.read(array, Box{{0}, {4}}, std::as_writable_bytes(std::span(values)), last);
    return "no error";
  } catch (const DataError& error) {
    const std::string text = error.what();
    return text.substr(text.find(".af: ") + 5);
  }
}

TEST(ArrayFormatRejects, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(error("version_3"), "footer version: expected 4, 5 or 6, got 3");
  EXPECT_EQ(error("codec_unknown"), "codec: expected lz4 or zstd, got 'gzip' (field 'd')");
  EXPECT_EQ(error("block_id_missing"), "chunk: no block 0 in the footer (field 'd')");
  EXPECT_EQ(error("chunk_size_short"), "chunk bytes: expected 8, got 4 (field 'd')");
  EXPECT_EQ(error("zstd_uncompressed_bomb"),
            "block 0: 25 stored bytes (zstd) hold at most 16, got an uncompressed size of 1152921504606846976 "
            "(field 'd')");
}

}  // namespace
}  // namespace atompack::array_file
