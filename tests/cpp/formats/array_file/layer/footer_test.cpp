#include "formats/array_file/layer/footer.h"

#include <gtest/gtest.h>

#include "fixtures.h"
#include "formats/array_file/archive_bytes.h"
#include "formats/array_file/layer/archive.h"
#include "formats/array_file/layer/footer_encoder.h"
#include "formats/array_file/read/array.h"
#include "formats/array_file/read/statistics.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::MadeArray;
using test::MadeLayer;

TEST(Footer, GivesWhatWasPut) {
  const MadeLayer made(ByteString{1, 2, 3, 4}, {{.shape = {3}, .chunk_shape = {2}, .chunks = {{{1}, 0, 4}}, .fill = -5},
                                                {.name = "b", .deleted = true}});
  const Footer footer(made.archive());
  ASSERT_EQ(footer.n_blocks(), 1U);
  EXPECT_EQ(footer.block(0).decoded_bytes, 4U);
  EXPECT_FALSE(footer.block(0).codec);
  ASSERT_EQ(footer.n_arrays(), 2U);
  const ArrayRecord array = footer.array(0);
  EXPECT_EQ(array.name, "a");
  EXPECT_EQ(array.type, Type::int32);
  EXPECT_EQ(footer.integers(array.shape), std::vector<uint64_t>{3});
  EXPECT_EQ(std::get<int64_t>(array.fill.value()), -5);
  EXPECT_EQ(footer.integers(footer.chunk(array.chunks, 0).coordinate), std::vector<uint64_t>{1});
  EXPECT_TRUE(footer.array(1).deleted);
  EXPECT_FALSE(footer.array(1).fill);
}

TEST(Footer, ResolvesAttributes) {
  const MadeLayer made({}, {{.attributes = {0, 1, 1, 0}}, {.attributes = {0, 2}}});
  const Footer footer(made.archive());
  const std::vector<Attribute> found = footer.attributes(footer.array(0));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, "k");
  EXPECT_EQ(std::get<bool>(found[0].value), true);
  EXPECT_EQ(found[1].key, "x");
  EXPECT_EQ(std::get<int32_t>(found[1].value), 7);
  EXPECT_TRUE(footer.attributes(footer.array(1)).empty());  // numbers of another layer
}

TEST(Footer, GivesAttributesOfVersion6) {
  const ByteString bytes{1, 2, 3};
  LayerArray array;
  array.definition = {.name = "a name of more than sixteen bytes", .type = Type::uint8};
  array.attributes = {{"b", true},
                      {"i", int16_t{-7}},
                      {"u", uint64_t{1} << 63},
                      {"f", 0.5F},
                      {"text", std::string_view("a text of more than sixteen bytes")},
                      {"bytes", bytes.bytes()},
                      {"flags", std::vector<bool>{true, false}},
                      {"reals", std::vector<double>{1.5, -2.5}},
                      {"texts", std::vector<std::string_view>{"b", ""}},
                      {"blobs", std::vector<Bytes>{bytes.bytes(), {}}},
                      {"same", int16_t{-7}}};
  array.statistics.emplace();
  array.statistics->min = std::string("a");
  array.statistics->n_rows = 9;
  LayerArray plain;
  plain.definition = {.name = "b", .type = Type::float32, .shape = {3}, .chunk_shape = {3}};
  const std::vector<std::byte> archive =
      encode_footer({.blocks = {}, .arrays = {&array, &plain}, .base_hint = {}, .version = kFooterVersion6});
  const Footer footer(archive);
  EXPECT_EQ(footer.version(), kFooterVersion6);
  ASSERT_EQ(footer.n_arrays(), 2U);
  const std::vector<Attribute> found = footer.attributes(footer.array(0));
  ASSERT_EQ(found.size(), array.attributes.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].key, array.attributes[i].key);
    EXPECT_EQ(found[i].value.index(), array.attributes[i].value.index());
  }
  EXPECT_EQ(std::get<int16_t>(found[1].value), -7);
  EXPECT_EQ(std::get<std::string_view>(found[4].value), "a text of more than sixteen bytes");
  EXPECT_EQ(as_text(std::get<Bytes>(found[5].value)), as_text(bytes.bytes()));
  EXPECT_EQ(std::get<std::vector<bool>>(found[6].value), (std::vector<bool>{true, false}));
  EXPECT_EQ(std::get<std::vector<std::string_view>>(found[8].value), (std::vector<std::string_view>{"b", ""}));
  EXPECT_TRUE(footer.attributes(footer.array(1)).empty());
  EXPECT_EQ(footer.array(1).statistics, 0U);
  const auto [name, statistics] = statistics_at(archive, footer.array(0).statistics);
  EXPECT_EQ(name, array.definition.name);
  EXPECT_EQ(std::get<std::string>(statistics.min.value()), "a");
  EXPECT_EQ(statistics.n_rows, 9U);
}

// Deeper than a stack would take.
TEST(Footer, TypesNestAsDeepAsTheyLike) {
  const MadeLayer made({}, {{.lists_around = 300'000}});
  EXPECT_EQ(Footer(made.archive()).array(0).type, Type::list);
}

TEST(Footer, RefusesWhatIsShared) {
  const MadeLayer made({}, {{.shape = {3}, .chunk_shape = {3}}});
  ByteString archive;
  archive.append(made.archive());
  const size_t array = archive.size() - 96 - 2 * 24 - 2 * 16 - 168;
  const int64_t shape = load_le<int64_t>(archive.bytes().data() + array + 40);
  archive.patch(array + 72, shape - 32);  // the chunk shape at the place of the shape
  EXPECT_NE(test::corrupt([&] { Footer(archive.bytes()); }).find("chunk shape: expected 4 bytes aligned to 4"),
            std::string::npos);
}

TEST(Footer, RefusesCountsThatDoNotFit) {
  const MadeLayer made({}, {{.shape = {3}}});
  ByteString archive;
  archive.append(made.archive());
  archive.patch(archive.size() - 96 + 32, ~uint64_t{0});
  EXPECT_NE(test::corrupt([&] { Footer(archive.bytes()); }).find("arrays: expected a count of at most"),
            std::string::npos);
}

// Footers and statistics that the library wrote, taken apart and put together again, byte for byte.

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
