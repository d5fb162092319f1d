#include "formats/atlas_shards/writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "formats/atlas_shards/reader.h"
#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;

// A folder for what a test makes.
class ShardWriting : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "atompack_shards_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string root() const { return folder_ / "set"; }

  // Examples are their numbers, each with the same long text.
  void write(uint64_t n, const WriterOptions& options) const {
    Writer writer(root(), options);
    for (uint64_t i = 0; i < n; ++i) {
      pickle::Writer& out = writer.begin_example();
      out.begin_dict();
      out.key("number");
      out.integer(static_cast<int64_t>(i));
      out.key("text");
      out.text("the quick brown fox jumps over the lazy dog, again and again and again");
      out.end_dict();
      writer.end_example();
    }
    writer.close();
  }

  void expect_numbers(uint64_t n) const {
    const Reader reader(root());
    ASSERT_EQ(reader.size(), n);
    EXPECT_EQ(reader.shard_sizes_warning(), std::nullopt);
    for (uint64_t i = 0; i < n; ++i) {
      const Place place = reader.locate(i);
      const auto block = reader.block(place.shard, place.block);
      EXPECT_EQ(block->example(place.position).find("number")->integer(), static_cast<int64_t>(i));
    }
  }

  fs::path folder_;
};

TEST_F(ShardWriting, BlocksOfAFewBytesMakeNoDictionary) {
  {
    Writer writer(root(), {.shard_size = 100, .block_size = 1});
    for (int i = 0; i < 20; ++i) {
      writer.begin_example().integer(i);
      writer.end_example();
    }
    writer.close();
  }
  EXPECT_EQ(Reader(root()).shards().at(0).meta.strategy, Strategy::zstd);
}

TEST_F(ShardWriting, ADroppedExampleLeavesNothing) {
  {
    Writer writer(root(), {.shard_size = 2, .block_size = 2, .strategy = Strategy::bare});
    for (int i = 0; i < 4; ++i) {
      pickle::Writer& out = writer.begin_example();
      out.begin_dict();
      out.key(i == 2 ? "other" : "number");  // remembered, and forgotten again
      if (i == 2) {
        writer.drop_example();
        continue;
      }
      out.integer(i < 2 ? i : 2);
      out.end_dict();
      writer.end_example();
    }
    writer.close();
  }
  expect_numbers(3);
}

TEST_F(ShardWriting, NothingIsThereBeforeTheEnd) {
  {
    Writer writer(root(), {.shard_size = 2, .block_size = 1});
    for (int i = 0; i < 5; ++i) {
      writer.begin_example().integer(i);
      writer.end_example();
    }
    EXPECT_FALSE(fs::exists(root()));
    EXPECT_THROW(Writer(root(), {.shard_size = 2, .block_size = 1}), LockedError);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ShardWriting, WhatADeadWriterLeftIsTakenAway) {
  fs::create_directories(folder_ / ".set.new" / "7");
  std::ofstream(folder_ / ".set.new" / "7" / "data.bin") << "x";
  write(1, {.shard_size = 2, .block_size = 1});
  EXPECT_EQ(Reader(root()).shards().size(), 1u);
  EXPECT_FALSE(fs::exists(folder_ / ".set.new"));
}

TEST_F(ShardWriting, WhatAppearsMeanwhileStays) {
  Writer writer(root(), {.shard_size = 2, .block_size = 1});
  fs::create_directories(root());
  EXPECT_THROW(writer.close(), IoError);
  EXPECT_TRUE(fs::is_empty(root()));
}

}  // namespace
}  // namespace atompack::atlas_shards
