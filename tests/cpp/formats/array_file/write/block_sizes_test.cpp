#include <gtest/gtest.h>

#include "formats/array_file/read/reader.h"
#include "formats/array_file/write/writer.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

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
