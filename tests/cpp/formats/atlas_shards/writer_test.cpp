#include "formats/atlas_shards/writer.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "formats/atlas_shards/reader.h"
#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;

// A folder for what a test makes.
class Writing : public testing::Test {
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

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      found.push_back(fs::relative(entry.path(), root()));
    }
    std::ranges::sort(found);
    return found;
  }

  std::string text_at(const std::string& name) const {
    std::ifstream file(fs::path(root()) / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
};

using ShardWriting = Writing;

std::vector<int> strategies_of(const Reader& reader) {
  std::vector<int> strategies;
  for (const Shard& shard : reader.shards()) strategies.push_back(static_cast<int>(shard.meta.strategy));
  return strategies;
}

TEST_F(ShardWriting, EachStrategyIsReadBack) {
  for (const Strategy strategy :
       {Strategy::bare, Strategy::zstd, Strategy::shared_dictionary, Strategy::own_dictionary}) {
    write(95, {.shard_size = 40, .block_size = 4, .strategy = strategy, .n_threads = 2});
    expect_numbers(95);
    fs::remove_all(root());
  }
}

TEST_F(ShardWriting, TheFilesOfBareShards) {
  write(5, {.shard_size = 4, .block_size = 2, .strategy = Strategy::bare});
  EXPECT_EQ(names(), (std::vector<std::string>{"0", "0/data.bin", "0/index.npy", "0/meta.json", "1", "1/data.bin",
                                               "1/index.npy", "1/meta.json", "meta.json"}));
  EXPECT_EQ(text_at("meta.json"),
            "{\n    \"version\": 1,\n    \"shard_sizes\": [\n        4,\n        1\n    ],\n"
            "    \"compression_strategy\": 0\n}");
  EXPECT_EQ(text_at("1/meta.json"),
            "{\n    \"version\": 1,\n    \"block_size\": 2,\n    \"stored_examples\": 1,\n"
            "    \"compression_strategy\": 0,\n    \"compression_level\": 3,\n    \"compression_dict_size\": 0.01\n}");
}

TEST_F(ShardWriting, BelongsToTheProcessThatOpenedIt) {
  Writer writer(root(), {.shard_size = 4, .block_size = 2});
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    for (const auto action : {+[](Writer& w) { w.begin_example(); }, +[](Writer& w) { w.close(); }}) {
      try {
        action(writer);
      } catch (const LockedError&) {
        ++refused;
      }
    }
    ::_exit(refused == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THROW(Writer(root(), {}), LockedError);
  writer.close();
  EXPECT_EQ(Reader(root()).size(), 0U);
}

TEST_F(ShardWriting, ASharedDictionaryIsThatOfTheFirstShard) {
  write(90, {.shard_size = 40, .block_size = 5});
  EXPECT_EQ(strategies_of(Reader(root())), (std::vector{2, 2, 2}));
  EXPECT_EQ(text_at("zstd_dict.bin").substr(0, 4), "\x37\xA4\x30\xEC");
  EXPECT_FALSE(fs::exists(fs::path(root()) / "0/zstd_dict.bin"));
}

TEST_F(ShardWriting, AFirstShardOfSixBlocksMeansNoDictionaryAtAll) {
  write(100, {.shard_size = 24, .block_size = 4});
  EXPECT_EQ(strategies_of(Reader(root())), (std::vector{1, 1, 1, 1, 1}));
  EXPECT_FALSE(fs::exists(fs::path(root()) / "zstd_dict.bin"));
  EXPECT_NE(text_at("meta.json").find("\"compression_strategy\": 1"), std::string::npos);
  expect_numbers(100);
}

TEST_F(ShardWriting, AShardOfSixBlocksHasNoDictionaryOfItsOwn) {
  write(50, {.shard_size = 28, .block_size = 4, .strategy = Strategy::own_dictionary});
  EXPECT_EQ(strategies_of(Reader(root())), (std::vector{3, 1}));
  EXPECT_NE(text_at("meta.json").find("\"compression_strategy\": 3"), std::string::npos);
  EXPECT_TRUE(fs::exists(fs::path(root()) / "0/zstd_dict.bin"));
  EXPECT_FALSE(fs::exists(fs::path(root()) / "1/zstd_dict.bin"));
}

TEST_F(ShardWriting, BlocksOfAFewBytesMakeNoDictionary) {
  {
    Writer writer(root(), {.shard_size = 100, .block_size = 1});
    for (int i = 0; i < 20; ++i) {
      writer.begin_example().integer(i);
      writer.end_example();
    }
    writer.close();
  }
  EXPECT_EQ(strategies_of(Reader(root())), std::vector{1});
}

TEST_F(ShardWriting, AnEmptySetHasOneEmptyShard) {
  write(0, {.shard_size = 10, .block_size = 4});
  EXPECT_EQ(names(), (std::vector<std::string>{"0", "0/index.npy", "0/meta.json", "meta.json"}));
  const std::string index = text_at("0/index.npy");
  EXPECT_EQ(index.size(), 129u);
  EXPECT_TRUE(
      index.starts_with(std::string("\x93NUMPY\1\0\x76\0{'descr': '|u1', 'fortran_order': False, "
                                    "'shape': (1,), }  ",
                                    67)));
  expect_numbers(0);
}

TEST_F(ShardWriting, AShardSizeOfZeroMeansOneExampleAShard) {
  write(3, {.shard_size = 0, .block_size = 1});
  EXPECT_EQ(Reader(root()).shards().size(), 4u);
  expect_numbers(3);
}

TEST_F(ShardWriting, NamesAreAsLongAsTheLast) {
  write(11, {.shard_size = 1, .block_size = 1, .strategy = Strategy::bare});
  const Reader reader(root());
  EXPECT_EQ(reader.shards().front().name, "00");
  EXPECT_EQ(reader.shards().back().name, "10");
  expect_numbers(11);
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

TEST_F(ShardWriting, WhatIsThereStays) {
  write(2, {.shard_size = 2, .block_size = 1});
  EXPECT_THROW(write(1, {.shard_size = 2, .block_size = 1}), IoError);
  expect_numbers(2);
}

TEST_F(ShardWriting, WhatAppearsMeanwhileStays) {
  Writer writer(root(), {.shard_size = 2, .block_size = 1});
  fs::create_directories(root());
  EXPECT_THROW(writer.close(), IoError);
  EXPECT_TRUE(fs::is_empty(root()));
}

}  // namespace
}  // namespace atompack::atlas_shards
