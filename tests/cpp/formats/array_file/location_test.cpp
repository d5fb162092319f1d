// Array files that are in a store, and local ones that are not in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "formats/array_file/array_model.h"
#include "formats/array_file/gathered.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/eviction.h"
#include "io/fake_store.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

namespace fs = std::filesystem;
using codec::Codec;
using test::FakeStore;
using test::gather;
using test::GatheredRow;

class ArraysToLocate : public testing::TestWithParam<Codec> {
 protected:
  // `n` arrays of 500 numbers in blocks of two: the base, or one more layer.
  void write(int n) {
    Writer writer(path(), {.codec = GetParam(), .block_bytes = 8000, .n_threads = 1});
    const bool is_base = names_.empty();
    for (int i = 0; i < n; ++i) {
      const std::string name = cat("array", i);
      if (!writer.contains(name)) writer.define({.name = name, .type = Type::float64, .shape = {500}});
      std::vector<double> values(500);
      for (size_t j = 0; j < values.size(); ++j) values[j] = next_ += 1.0 / 3;
      writer.write(name, {{0}, {500}}, std::as_bytes(std::span(values)));
      names_.resize(std::max(names_.size(), static_cast<size_t>(n)));
      names_[static_cast<size_t>(i)] = name;
    }
    is_base ? writer.compact() : writer.flush();
  }

  std::string path() const { return folder_ / "set/data.af"; }
  io::Location place() const { return store_->at("set/data.af"); }
  std::vector<GatheredRow> expected() const { return rows_of(Reader(path())); }
  std::vector<GatheredRow> rows_of(const Reader& reader) const {
    BlockCache cache(uint64_t{1} << 24);
    return gather(slice(reader, cache), false);
  }
  Slice slice(const Reader& reader, BlockCache& cache) const {
    std::vector<std::string_view> views(names_.begin(), names_.end());
    std::vector<int64_t> rows;
    for (size_t i = 0; i < names_.size(); ++i) rows.push_back(static_cast<int64_t>(i));
    return {std::make_shared<const Column>(reader.layers(), views), rows, {}, cache};
  }

  void SetUp() override { fs::create_directory(folder_ / "set"); }

  test::TemporaryFolder folder_;
  std::shared_ptr<FakeStore> store_ = std::make_shared<FakeStore>(folder_.path());
  std::vector<std::string> names_;
  double next_ = 0;
};

TEST_P(ArraysToLocate, TakeFewRequests) {
  write(20);
  write(4);
  const Reader reader(place());
  const test::Requests opening = store_->requests();
  EXPECT_EQ(opening.opens, 2);
  EXPECT_EQ(opening.reads, 2) << "the end of each layer, once";
  EXPECT_EQ(opening.lists, 2);
  EXPECT_EQ(opening.versions, 2);
  store_->reset();
  reader.statistics();
  EXPECT_EQ(store_->requests().all(), 1 + 1 + 1 + 2) << "opened and read, and both layers looked for again";
  store_->reset();
  EXPECT_EQ(rows_of(reader), expected());
  const int n_blocks = 10 + 2 - 2;  // two blocks of the base hold only values that were replaced
  EXPECT_EQ(store_->requests().all(), n_blocks);
}

TEST_P(ArraysToLocate, LayersAreLookedUpWithoutListings) {
  for (int layer = 0; layer < 7; ++layer) write(20 - layer);
  store_->forbid_listing();
  EXPECT_EQ(rows_of(Reader(place())), expected());
  for (const int gone : {1, 2, 3}) fs::remove(folder_ / cat("set/data.", gone, ".af"));
  EXPECT_EQ(Reader(place()).n_layers(), 4U);
  EXPECT_EQ(rows_of(Reader(place())), expected());
}

TEST_P(ArraysToLocate, AnnouncedRangesOfASliceAreRequestedTogether) {
  write(40);
  const Reader reader(place());
  store_->set_latency(std::chrono::milliseconds(50));
  store_->reset();
  BlockCache cache(uint64_t{1} << 24);
  const Slice wanted = slice(reader, cache);
  EXPECT_EQ(store_->requests().all(), 0) << "the footer suffices to plan it";
  wanted.announce();
  const test::Requests announced = store_->requests();
  EXPECT_EQ(announced.reads, 20);
  EXPECT_EQ(announced.waits, 0);
  EXPECT_EQ(gather(wanted, true), expected());
  EXPECT_EQ(store_->requests().all(), announced.all()) << "nothing is fetched twice";
  EXPECT_EQ(store_->requests().waits, 1);
  if (GetParam() == Codec::none) return;
  wanted.announce();
  EXPECT_EQ(store_->requests().all(), announced.all()) << "cached blocks are not fetched";
}

TEST_P(ArraysToLocate, ChunksOfABoxAreRequestedTogether) {
  Writer writer(path(), {.codec = GetParam(), .block_bytes = 1000, .n_threads = 1});
  writer.define({.name = "a", .type = Type::float64, .shape = {5000}, .chunk_shape = {100}});
  std::vector<double> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i) / 7;
  writer.write("a", {{0}, {5000}}, std::as_bytes(std::span(values)));
  writer.flush();
  const Reader reader(place());
  store_->set_latency(std::chrono::milliseconds(50));
  store_->reset();
  std::vector<double> found(1000);
  DecodedBlock last;
  const Array array = reader.array("a");
  reader.read(array, {{1000}, {1000}}, std::as_writable_bytes(std::span(found)), last);
  EXPECT_TRUE(std::ranges::equal(found, std::span(values).subspan(1000, 1000)));
  EXPECT_LE(store_->requests().reads, 11);
  EXPECT_EQ(store_->requests().waits, 1);
}

// Of blocks that are stored as they are, only wanted chunks are read.
TEST_P(ArraysToLocate, FewBytesOfPlainBlocksAreRead) {
  write(2);
  std::vector<std::string_view> views(names_.begin(), names_.begin() + 1);
  const Reader reader(place());
  store_->reset();
  BlockCache cache(uint64_t{1} << 24);
  const auto column = std::make_shared<const Column>(reader.layers(), views);
  gather(Slice(column, std::vector<int64_t>{0, 0}, {}, cache), true);
  const test::Requests slice = store_->requests();
  EXPECT_EQ(slice.reads, 1);
  store_->reset();
  test::read_alone(reader.layers(), names_[0], {});
  EXPECT_EQ(store_->requests().reads, 1);
  EXPECT_EQ(store_->requests().bytes_read, slice.bytes_read);
  if (GetParam() == Codec::none) {
    EXPECT_EQ(slice.bytes_read, 4000U);
  }
}

TEST_P(ArraysToLocate, LongFootersTakeASecondRead) {
  write(700);
  const Reader reader(place());
  EXPECT_EQ(store_->requests().reads, 2);
  EXPECT_EQ(reader.names().size(), 700U);
  EXPECT_EQ(rows_of(reader), expected());
}

TEST_P(ArraysToLocate, AnotherVersionIsAnError) {
  write(4);
  const Reader reader(place());
  write(4);
  std::ofstream(path(), std::ios::app) << "more";
  try {
    rows_of(reader);
    ADD_FAILURE() << "another version was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ESTALE);
    EXPECT_EQ(error.path(), "mem://set/data.af");
  }
}

TEST_P(ArraysToLocate, MissingOnesAreNamed) {
  const auto message = [](const io::Location& base) {
    try {
      const Reader reader(base);
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(place()), "mem://set: No such file or directory");
  EXPECT_EQ(message(path()), path() + ": No such file or directory");
  EXPECT_EQ(message(folder_ / "none/data.af"), folder_ / "none" + ": No such file or directory");
}

TEST_P(ArraysToLocate, EvictedBlocksAreReadAhead) {
  write(400);
  const std::vector<GatheredRow> rows = expected();
  BlockCache cache(0);
  std::optional<Reader> opened;
  std::optional<Slice> first;
  const auto window = [&] { return opened->layers().layer(0).file().window(); };
  ATOMPACK_EVICT(path());
  ATOMPACK_UNTIL_ABSENT([&] {
    first.reset();
    opened.emplace(path());
    if (!test::evict(path(), 1)) return false;  // reading the footer reads what is around it, which stays
    EXPECT_EQ(window(), 1);
    first.emplace(slice(*opened, cache));
    return window() > 256;  // found out before a block is looked at
  });
  const Reader& reader = *opened;
  const io::ByteSource& file = reader.layers().layer(0).file();
  first->announce();
  EXPECT_EQ(gather(*first, true), rows);
  for (int i = 0; i < 40; ++i) slice(reader, cache).announce();  // enough samples of a file that is read by then
  EXPECT_EQ(file.window(), 0);
  EXPECT_EQ(gather(slice(reader, cache), false), rows);
}

INSTANTIATE_TEST_SUITE_P(Each, ArraysToLocate, testing::Values(Codec::none, Codec::lz4, Codec::zstd),
                         [](const auto& instance) { return std::string(codec::name_of(instance.param)); });

}  // namespace
}  // namespace atompack::array_file
