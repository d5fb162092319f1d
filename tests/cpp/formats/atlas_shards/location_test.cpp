// Sharded datasets that are in a store, and local ones that are not in memory.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>

#include "formats/atlas_shards/reader.h"
#include "formats/atlas_shards/writer.h"
#include "io/eviction.h"
#include "io/fake_store.h"
#include "io/temporary_folder.h"
#include "message_of.h"
#include "serial/pickle/show.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;
using test::FakeStore;

// Everything that a dataset shows: its shards and examples.
std::vector<std::string> contents_of(const io::Location& root) {
  const Reader reader(root);
  std::vector<std::string> found{reader.shard_sizes_warning().value_or("")};
  for (const Shard& shard : reader.shards()) found.push_back(cat(shard.name, ' ', shard.meta.stored_examples));
  for (uint64_t example = 0; example < reader.size(); ++example) {
    const Place place = reader.locate(example);
    found.push_back(test::show(reader.block(place.shard, place.block)->example(place.position)));
  }
  return found;
}

// A dataset of `n` integers in blocks of four, in shards of 32.
class ShardsToLocate : public testing::Test {
 protected:
  void write(int n, Strategy strategy = Strategy::zstd, const std::string& padding = "") {
    Writer writer(root(), {.shard_size = 32, .block_size = 4, .strategy = strategy});
    for (int i = 0; i < n; ++i) {
      auto& example = writer.begin_example();
      example.begin_tuple();
      example.integer(i);
      example.text(padding);
      example.end_tuple();
      writer.end_example();
    }
    writer.close();
  }
  std::string root() const { return folder_ / "set"; }

  test::TemporaryFolder folder_;
  std::shared_ptr<FakeStore> store_ = std::make_shared<FakeStore>(folder_.path());
};

std::vector<int64_t> integers_in(const Examples& examples) {
  std::vector<int64_t> found;
  for (const Value& value : examples.values) found.push_back(value.item(0).integer());
  return found;
}

TEST_F(ShardsToLocate, TakeFewRequests) {
  write(100);
  const Reader reader(store_->at("set"));
  ASSERT_EQ(reader.shards().size(), 4U);
  // The root: opened and read, and listed. Each shard: its meta.json opened and read, its index opened and its header
  // read, its data opened.
  const test::Requests opening = store_->requests();
  EXPECT_EQ(opening.opens, 1 + 3 * 4);
  EXPECT_EQ(opening.reads, 1 + 2 * 4);
  EXPECT_EQ(opening.lists, 1);
  EXPECT_EQ(opening.versions, 0);
  store_->reset();
  for (uint64_t shard = 0; shard < 4; ++shard) reader.block(shard, 0);
  EXPECT_EQ(store_->requests().reads, 2 * 4) << "the index and a block";
  EXPECT_EQ(store_->requests().all(), 2 * 4);
  store_->reset();
  reader.block(0, 1);
  EXPECT_EQ(store_->requests().all(), 1);
}

// Names follow from the number of shards.
TEST_F(ShardsToLocate, ShardsAreFoundWithoutListings) {
  for (const int n : {1, 100, 32 * 11}) {
    fs::remove_all(root());
    write(n);
    const auto unlisted = std::make_shared<FakeStore>(folder_.path());
    unlisted->forbid_listing();
    EXPECT_EQ(contents_of(unlisted->at("set")), contents_of(root()));
    EXPECT_LE(unlisted->requests().versions, 1) << "the number of digits of the first name";
    EXPECT_EQ(Reader(unlisted->at("set")).fingerprint(), Reader(store_->at("set")).fingerprint());
  }
  const std::string before = Reader(store_->at("set")).fingerprint();
  std::ofstream(root() + "/00/data.bin", std::ios::app) << "more";
  EXPECT_NE(Reader(store_->at("set")).fingerprint(), before);
}

TEST_F(ShardsToLocate, BlocksOfABatchAreRequestedTogether) {
  write(100);
  const auto reader = std::make_shared<const Reader>(store_->at("set"));
  const ShardSource source(reader);
  EXPECT_EQ(source.window(), 1) << "not known yet";
  const std::vector<int64_t> batch{99, 0, 5, 40, 41, 9, 70, 13, 66};
  source.announce(batch);
  EXPECT_GT(source.window(), 256);
  store_->set_latency(std::chrono::milliseconds(50));
  store_->reset();
  const std::vector<int64_t> other{97, 20, 25, 44, 36, 29, 75, 17, 89};
  source.announce(other);
  const int n_blocks = 9;
  EXPECT_EQ(store_->requests().reads, n_blocks);
  EXPECT_EQ(store_->requests().waits, 0);
  EXPECT_EQ(integers_in(source.read(other)), other);
  EXPECT_EQ(store_->requests().all(), n_blocks) << "nothing is fetched twice";
  EXPECT_LE(store_->requests().waits, 4) << "once for each shard";
  source.announce(other);
  EXPECT_EQ(store_->requests().all(), n_blocks) << "cached blocks are not fetched";
  EXPECT_EQ(integers_in(source.read(batch)), batch);
}

TEST_F(ShardsToLocate, ShardsAreOpenedTogether) {
  write(32 * 30);
  store_->set_latency(std::chrono::milliseconds(20));
  const auto start = std::chrono::steady_clock::now();
  const ShardSource source(std::make_shared<const Reader>(store_->at("set")));
  std::vector<int64_t> batch;
  for (int64_t shard = 0; shard < 30; ++shard) batch.push_back(32 * shard);
  source.announce(batch);
  EXPECT_EQ(integers_in(source.read(batch)), batch);
  const auto latencies = (std::chrono::steady_clock::now() - start) / std::chrono::milliseconds(20);
  EXPECT_LT(latencies, 60) << "instead of more than 200";
}

TEST_F(ShardsToLocate, FilesOfTheRootAreNoShards) {
  write(100);
  fs::create_directory(fs::path(root()) / "notes");
  std::ofstream(fs::path(root()) / "notes" / "text") << "no shard";
  std::ofstream(fs::path(root()) / "9") << "a file";
  std::ofstream(fs::path(root()) / "README") << "a file";
  EXPECT_EQ(Reader(store_->at("set")).size(), 100U);
  fs::create_directory(fs::path(root()) / "77");
  EXPECT_EQ(Reader(store_->at("set")).size(), 100U) << "a store has no empty folders";
  std::ofstream(fs::path(root()) / "77" / "data.bin") << "a shard without metadata";
  EXPECT_EQ(test::message_of<IoError>([&] { const Reader reader(store_->at("set")); }),
            "mem://set/77/meta.json: No such file or directory");
}

TEST_F(ShardsToLocate, AnotherVersionIsAnError) {
  write(100);
  const Reader reader(store_->at("set"));
  reader.block(0, 0);
  std::ofstream(root() + "/0/data.bin", std::ios::app) << "more";
  try {
    reader.block(0, 1);
    ADD_FAILURE() << "another version was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), ESTALE);
    EXPECT_EQ(error.path(), "mem://set/0/data.bin");
  }
}

// What cannot be announced is left to reading, which reports the error.
TEST_F(ShardsToLocate, AnnouncingDamagedShardsIsNoError) {
  write(100);
  const ShardSource source(std::make_shared<const Reader>(store_->at("set")));
  fs::resize_file(root() + "/1/index.npy", 20);
  const std::vector<int64_t> batch{0, 40};
  source.announce(batch);
  EXPECT_EQ(integers_in(source.read(std::vector<int64_t>{0})), std::vector<int64_t>{0});
  EXPECT_THROW(source.read(batch), std::exception);
}

TEST_F(ShardsToLocate, EvictedBlocksAreReadAhead) {
  write(64, Strategy::bare, std::string(40000, 'x'));
  const std::vector<int64_t> batch{62, 1, 33, 17};
  std::optional<ShardSource> opened;
  ATOMPACK_EVICT(root() + "/0/data.bin");
  ATOMPACK_UNTIL_ABSENT([&] {
    opened.reset();
    if (!test::evict(root() + "/0/data.bin") || !test::evict(root() + "/1/data.bin")) return false;
    opened.emplace(std::make_shared<const Reader>(root(), ReaderOptions{.cache_bytes = 0}));
    EXPECT_EQ(opened->window(), 1);
    opened->announce(batch);
    return opened->window() > 256;
  });
  const ShardSource& source = *opened;
  EXPECT_EQ(integers_in(source.read(batch)), batch);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 64; ++i) all.push_back(i);
  for (int i = 0; i < 40; ++i) source.announce(all);  // enough samples of a file that is read by then
  EXPECT_EQ(integers_in(source.read(all)), all);
  for (int i = 0; i < 40; ++i) source.announce(all);
  EXPECT_EQ(source.window(), 0) << "the files are in memory";
}

}  // namespace
}  // namespace atompack::atlas_shards
