// Footers and statistics that the library wrote, taken apart and put together again, byte for byte.
#include "formats/array_file/layer/footer_encoder.h"

#include <gtest/gtest.h>

#include "fixtures.h"
#include "formats/array_file/layer/archive.h"
#include "formats/array_file/layer/footer.h"
#include "formats/array_file/npz.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/statistics.h"

namespace atompack::array_file {
namespace {

LayerArray array_of(const Footer& footer, const ArrayRecord& record) {
  LayerArray array{.definition = {.name = std::string(record.name),
                                  .type = record.type,
                                  .shape = footer.integers(record.shape),
                                  .dimension_names = footer.strings(record.dimension_names),
                                  .chunk_shape = footer.integers(record.chunk_shape),
                                  .fill = to_owned(record.fill)},
                   .deleted = record.deleted,
                   .chunks = {}};
  const Grid grid(array.definition.shape, array.definition.chunk_shape);
  for (uint64_t i = 0; i < record.chunks.count; ++i) {
    const ChunkRecord chunk = footer.chunk(record.chunks, i);
    array.chunks.push_back(
        {grid.number_of(footer.integers(chunk.coordinate)), {chunk.block, chunk.offset, chunk.bytes}});
  }
  return array;
}

std::vector<std::byte> encoded_again(Bytes archive) {
  const Footer footer(archive);
  const Archive raw(archive);
  const uint64_t root = archive.size() - RootLayout::kLayout.bytes;
  LayerContents contents{.blocks = {},
                         .arrays = {},
                         .number = raw.load<uint32_t>(root + RootLayout::kNumber),
                         .base_hint = raw.text(root + RootLayout::kBaseHint)};
  std::vector<LayerArray> arrays;
  for (uint64_t i = 0; i < footer.n_blocks(); ++i) contents.blocks.push_back(footer.block(i));
  for (uint64_t i = 0; i < footer.n_arrays(); ++i) arrays.push_back(array_of(footer, footer.array(i)));
  for (const LayerArray& array : arrays) contents.arrays.push_back(&array);
  return encode_footer(contents);
}

TEST(FooterEncoder, GivesTheLibrarysBytes) {
  const auto paths = test::fixture_files(".af");
  ASSERT_GT(paths.size(), 60U);
  for (const auto& path : paths) {
    const std::string file = test::contents(path.string());
    const Bytes archive = split_file(as_bytes(file), kLayerMagic).archive;
    const std::vector<std::byte> again = encoded_again(archive);
    EXPECT_TRUE(std::ranges::equal(again, archive)) << path;
  }
}

TEST(FooterEncoder, AnEmptyBaseHas108Bytes) {
  const std::vector<std::byte> base = encode_layer_end({});
  ASSERT_EQ(base.size(), 108U);
  const std::string made = test::contents((test::atlas_fixtures() / "tiny_json/t/data.af").string());
  EXPECT_TRUE(std::ranges::equal(base, as_bytes(made)));
}

TEST(StatisticsEncoder, GivesTheLibrarysBytes) {
  const auto paths = test::fixture_files(".stats");
  ASSERT_GT(paths.size(), 50U);
  for (const auto& path : paths) {
    const std::string file = test::contents(path.string());
    const std::vector<std::byte> again = encode_statistics(parse_statistics(as_bytes(file)));
    EXPECT_TRUE(std::ranges::equal(again, as_bytes(file))) << path;
  }
}

}  // namespace
}  // namespace atompack::array_file
