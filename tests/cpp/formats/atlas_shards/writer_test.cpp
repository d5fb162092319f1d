#include "formats/atlas_shards/writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "formats/atlas_shards/reader.h"
#include "io/temporary_folder.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;

TEST(ShardWriting, BlocksOfAFewBytesMakeNoDictionary) {
  const test::TemporaryFolder folder;
  const std::string root = folder / "set";
  {
    Writer writer(root, {.shard_size = 100, .block_size = 1});
    for (int i = 0; i < 20; ++i) {
      writer.begin_example().integer(i);
      writer.end_example();
    }
    writer.close();
  }
  EXPECT_EQ(Reader(root).shards().at(0).meta.strategy, Strategy::zstd);
}

TEST(ShardWriting, WhatAppearsMeanwhileStays) {
  const test::TemporaryFolder folder;
  const std::string root = folder / "set";
  Writer writer(root, {.shard_size = 2, .block_size = 1});
  fs::create_directories(root);
  EXPECT_THROW(writer.close(), IoError);
  EXPECT_TRUE(fs::is_empty(root));
}

}  // namespace
}  // namespace atompack::atlas_shards
