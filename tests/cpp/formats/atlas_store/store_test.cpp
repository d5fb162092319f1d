#include "formats/atlas_store/store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "fixtures.h"
#include "formats/array_file/gathered.h"
#include "formats/atlas_store/scenario.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

namespace fs = std::filesystem;
using test::gather;
using test::GatheredRow;

std::vector<GatheredRow> scan(const Store& store, uint32_t variable, std::span<const int64_t> datasets) {
  return gather(*store.slice(variable, datasets, {}), true);
}

class WrittenStore : public testing::Test {
 protected:
  static constexpr int kVariables = 6, kDatasets = 20;

  WrittenStore() {
    Writer writer(path(), Mode::create, {.codec = codec::Codec::lz4, .block_bytes = 200});
    for (int i = 0; i < kDatasets; ++i) {
      const std::string dataset = cat("d", i);
      writer.create_dataset(dataset);
      for (int j = 0; j < kVariables; ++j) {
        if ((i + j) % 5 == 0) continue;
        writer.define_array(dataset, test::numbers(cat("v", j), 7));
        test::put(writer, dataset, cat("v", j), 1, {100 * i + j, 2, 3, 4, i});
      }
    }
    writer.flush();
    rows_.resize(kDatasets);
    std::iota(rows_.begin(), rows_.end(), 0);
  }
  std::string path() const { return folder_ / "store"; }
  // Variables are numbered as they come up first.
  static uint32_t number(const Store& store, const std::string& variable) {
    return *store.metadata().find_variable(variable);
  }
  void write_more() const {
    Writer writer(path(), Mode::append);
    test::put(writer, "d1", "v0", 0, {-5});
    writer.flush();
  }

  test::TemporaryFolder folder_{test::folder_in_memory()};
  std::vector<int64_t> rows_;
};

TEST_F(WrittenStore, StaysAsItWasOpened) {
  const Store store(path());
  const auto before = scan(store, number(store, "v0"), rows_);
  write_more();
  EXPECT_EQ(scan(store, number(store, "v0"), rows_), before);
  const std::string replaced = path() + ": the store was written to since it was opened: open it again";
  EXPECT_EQ(test::message_of<FieldError>([&] { scan(store, number(store, "v1"), rows_); }), replaced);
  EXPECT_EQ(test::message_of<FieldError>([&] { Store again(path(), store.version()); }), replaced);
  const Store now(path());
  EXPECT_NO_THROW(Store(path(), now.version()));
  EXPECT_FALSE(scan(now, number(now, "v0"), rows_) == before);
}

TEST_F(WrittenStore, ACompactionChangesFilesAndNoValues) {
  write_more();
  const Store store(path());
  const auto before = scan(store, number(store, "v0"), rows_);
  Writer(path(), Mode::append).compact();
  EXPECT_EQ(scan(store, number(store, "v0"), rows_), before);
  const Store now(path());
  EXPECT_EQ(scan(now, number(now, "v0"), rows_), before);
}

TEST_F(WrittenStore, TellsWhatAnArrayIs) {
  const Store store(path());
  const uint32_t v0 = number(store, "v0");
  EXPECT_EQ(store.array(v0, 1).shape, std::vector<uint64_t>{7});
  EXPECT_EQ(store.type_of(v0), (ColumnType{ColumnKind::numeric, DType::int32}));
  EXPECT_EQ(test::message_of<FieldError>([&] { store.array(v0, 0); }), path() + ": dataset 'd0': no array 'v0'");
  const std::vector<int64_t> blocks = store.blocks(v0, rows_);
  EXPECT_EQ(blocks[0], -1);  // of a dataset without the array
  EXPECT_EQ(blocks[1], blocks[2]);
  EXPECT_NE(blocks[1], blocks[19]);
  EXPECT_EQ(store.statistics(v0).at("d1").n_rows, 7U);
}

TEST_F(WrittenStore, SaysWhereMetadataAndFileDisagree) {
  const std::string file = path() + "/atlas.json";
  std::string text = test::contents(file);
  const size_t at = text.find('7', text.find("\"shape\""));
  text[at] = '8';
  std::ofstream(file) << text;
  const Store store(path());
  const auto error = [&](int64_t row) { return test::corrupt([&] { scan(store, number(store, "v1"), {&row, 1}); }); };
  EXPECT_EQ(error(0), path() + "/v1/data.af: array: expected int32 (8) as in the metadata, got int32 (7) (field 'd0')");
  EXPECT_EQ(error(1), "nothing was thrown");
}

TEST_F(WrittenStore, AMissingFileIsAnError) {
  const Store store(path());
  fs::remove_all(path() + "/v2");
  EXPECT_THROW(scan(store, number(store, "v2"), rows_), IoError);
  EXPECT_NO_THROW(scan(store, number(store, "v1"), rows_));
}

}  // namespace
}  // namespace atompack::atlas_store
