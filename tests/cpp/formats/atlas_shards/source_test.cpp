#include "formats/atlas_shards/reader.h"

#include <gtest/gtest.h>

#include "formats/atlas_shards/writer.h"
#include "io/temporary_folder.h"

namespace atompack::atlas_shards {
namespace {

TEST(ShardSource, ExamplesInTheOrderThatWasAskedFor) {
  const test::TemporaryFolder parent;
  const std::string root = parent.path() + "/set";
  Writer writer(root, {.shard_size = 5, .block_size = 2, .strategy = Strategy::zstd});
  for (int i = 0; i < 12; ++i) {
    writer.begin_example().integer(i);
    writer.end_example();
  }
  writer.close();
  for (const uint64_t cache_blocks : {0, 1, 100}) {
    const ShardSource source(std::make_shared<Reader>(root, ReaderOptions{.cache_blocks = cache_blocks}));
    EXPECT_EQ(source.size(), 12);
    const std::vector<int64_t> numbers{11, 0, 5, 4, 5, 1, 0};
    const Examples examples = source.read(numbers);
    ASSERT_EQ(examples.values.size(), numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(examples.values[i].integer(), numbers[i]);
    EXPECT_EQ(examples.owners.size(), 4u) << "each block is held once";
  }
}

}  // namespace
}  // namespace atompack::atlas_shards
