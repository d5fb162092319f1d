#include "formats/array_file/read/reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "formats/array_file/archive_bytes.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/statistics.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

namespace fs = std::filesystem;
using test::ByteString;
using test::MadeLayer;

// An array file of two layers.
class ArrayFileReader : public testing::Test {
 protected:
  ArrayFileReader() {
    write("data.af", layer(0, {{{0}, 0, 8}, {{1}, 8, 8}}));
    write("data.10.af", layer(70, {{{1}, 8, 8}}));
  }

  static ByteString layer(int32_t first, const std::vector<test::MadeChunk>& chunks) {
    ByteString block;
    for (int32_t i = 0; i < 4; ++i) block.put(first + i);
    return MadeLayer(block, {{.shape = {4}, .chunk_shape = {2}, .chunks = chunks}}).file();
  }
  void write(const std::string& name, const ByteString& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << as_text(bytes.bytes());
  }
  std::string path(const std::string& name = "data.af") const { return folder_ / name; }

  static std::vector<int32_t> read(const Reader& reader) {
    std::vector<int32_t> values(4);
    DecodedBlock last;
    const Array array = reader.array("a");
    reader.read(array, array.whole(), std::as_writable_bytes(std::span(values)), last);
    return values;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ArrayFileReader, FindsItsLayers) {
  for (const char* const other :
       {"data.0.af", "data.x.af", "data.4294967296.af", "data.2.af.bak", "data2.af", "dat.3.af"})
    write(other, ByteString("no layer"));
  write("data.9.af", layer(30, {{{1}, 0, 8}}));
  std::vector<std::string> found;
  for (const LayerFile& layer : layer_files(path())) found.push_back(layer.path());
  EXPECT_EQ(found, (std::vector<std::string>{path(), path("data.9.af"), path("data.10.af")}));
  EXPECT_EQ(read(Reader(path())), (std::vector<int32_t>{0, 1, 72, 73}));
}

TEST_F(ArrayFileReader, NamesTheDamagedLayer) {
  write("data.3.af", ByteString("short"));
  EXPECT_EQ(test::corrupt([&] { Reader reader(path()); }), path("data.3.af") + ": trailer: expected 12 bytes, got 5");
}

TEST_F(ArrayFileReader, RefusesOtherPaths) {
  EXPECT_EQ(test::message_of<FieldError>([&] { Reader reader(path("data.stats")); }),
            "array file: expected a name that ends in .af, got " + path("data.stats"));
  try {
    const Reader reader(path("none.af"));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ENOENT);
  }
}

TEST_F(ArrayFileReader, NoticesThatAFileShrank) {
  const Reader reader(path());
  fs::resize_file(path("data.10.af"), 10);
  EXPECT_NE(test::corrupt([&] { read(reader); }).find("shrank while it was open"), std::string::npos);
}

TEST_F(ArrayFileReader, DamagedStatisticsAreAbsent) {
  EXPECT_TRUE(read_statistics(path()).empty());
  write("data.stats", ByteString("damaged and long enough"));
  EXPECT_TRUE(read_statistics(path()).empty());
}

}  // namespace
}  // namespace atompack::array_file
