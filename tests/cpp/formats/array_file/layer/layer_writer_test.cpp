#include "formats/array_file/layer/layer_writer.h"

#include <gtest/gtest.h>

#include "formats/array_file/layer/layer.h"
#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/faulty_file_system.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

using codec::Codec;
using test::FaultyFileSystem;

class BlockQueueTest : public testing::TestWithParam<Codec> {
 protected:
  static std::vector<std::byte> block(uint32_t i) { return std::vector<std::byte>(100 * i + 1, std::byte(i)); }
  static void push(BlockQueue& queue, uint32_t i) {
    if (queue.open().size() == 0) store(queue.open().extend(block(i).size(), 0), block(i));
    queue.push();
    EXPECT_EQ(queue.open().size(), 0U);
  }
  // All blocks are where the queue says, one after the other.
  void expect_blocks(const BlockQueue& queue, uint32_t n) const {
    ASSERT_EQ(queue.blocks().size(), n);
    uint64_t end = 0;
    std::vector<std::byte> decoded;
    for (uint32_t i = 0; i < n; ++i) {
      const StoredBlock& found = queue.blocks()[i];
      EXPECT_EQ(found.offset, end);
      std::vector<std::byte> stored(found.stored_bytes);
      ASSERT_EQ(file_->read_at(found.offset, stored), stored.size());
      BlockRecord record{i, 0, found.stored_bytes, found.decoded_bytes, std::nullopt};
      if (GetParam() != Codec::none) record.codec = name_of(GetParam());
      EXPECT_TRUE(std::ranges::equal(decode_block(find_block(record, stored), decoded), block(i))) << i;
      end += found.stored_bytes;
    }
    EXPECT_EQ(queue.end(), end);
  }

  test::TemporaryFolder folder_;
  FaultyFileSystem files_;
  std::unique_ptr<io::NewFile> file_ = files_.create(folder_ / "a");
};

TEST_P(BlockQueueTest, PutsBlocksInOrder) {
  BlockQueue queue(*file_, GetParam(), 0, 3, 1000);
  for (uint32_t i = 0; i < 30; ++i) {
    i % 7 == 3 ? queue.put(block(i)) : push(queue, i);
  }
  queue.drain();
  expect_blocks(queue, 30);
}

TEST_P(BlockQueueTest, TriesAgainWhatFailed) {
  for (size_t at = 1; at < 8; ++at) {
    file_.reset();
    file_ = files_.create(folder_ / "a");
    BlockQueue queue(*file_, GetParam(), 0, 2, 1000);
    files_.refuse_at = files_.n_operations() + at - 1;
    int n_failures = 0;
    const auto insist = [&](const auto& action) {
      try {
        action();
      } catch (const IoError&) {
        ++n_failures;
        queue.resume();
        action();
      }
    };
    for (uint32_t i = 0; i < 8; ++i) {
      insist([&] { i == 4 ? queue.put(block(i)) : push(queue, i); });
    }
    insist([&] { queue.drain(); });
    EXPECT_EQ(n_failures, 1);
    expect_blocks(queue, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockQueueTest, testing::Values(Codec::none, Codec::lz4, Codec::zstd),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

// Decoded sizes of the blocks of the newest layer, without a size chosen by the caller.
std::vector<uint64_t> block_sizes(const std::string& path, Codec codec, const ArrayDefinition& definition) {
  Writer writer(path, {.codec = codec, .n_threads = 1});
  writer.define(definition);
  const Box whole{std::vector<uint64_t>(definition.shape.size(), 0), definition.shape};
  const std::vector<std::byte> values(whole.n_elements() * item_bytes(definition.type));
  writer.write(definition.name, whole, values);
  writer.flush();
  const Reader reader(path);
  const Footer& footer = reader.layers().layer(1).footer();
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < footer.n_blocks(); ++i) sizes.push_back(footer.block(i).decoded_bytes);
  return sizes;
}

TEST(BlockSizes, AreSmallForArraysOfSeveralChunks) {
  const test::TemporaryFolder folder;
  constexpr uint64_t kChunk = 200 << 10;
  const ArrayDefinition several{.name = "a", .type = Type::uint8, .shape = {5 * kChunk}, .chunk_shape = {kChunk}};
  EXPECT_EQ(block_sizes(folder / "zstd.af", Codec::zstd, several),
            (std::vector<uint64_t>{3 * kChunk, 2 * kChunk}));  // 600 KiB are nearer to 512 than 400
  EXPECT_EQ(block_sizes(folder / "none.af", Codec::none, several), std::vector<uint64_t>{5 * kChunk});
  const ArrayDefinition one{.name = "a", .type = Type::uint8, .shape = {5 * kChunk}};
  EXPECT_EQ(block_sizes(folder / "one.af", Codec::lz4, one), std::vector<uint64_t>{5 * kChunk});
}

}  // namespace
}  // namespace atompack::array_file
