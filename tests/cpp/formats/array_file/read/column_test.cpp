#include "formats/array_file/read/column.h"

#include <gtest/gtest.h>

#include "formats/array_file/archive_bytes.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::MadeArray;
using test::MadeLayer;
using Cells = std::vector<uint64_t>;

class Columns : public testing::Test {
 protected:
  const Layers& layers(const std::vector<MadeLayer>& made) {
    made_ = made;
    std::vector<Layer> parsed;
    for (const MadeLayer& layer : made_) {
      parsed.emplace_back(std::make_shared<io::MemoryBytes>(layer.file().bytes(), cat("layer ", parsed.size())));
    }
    return layers_.emplace(std::move(parsed));
  }
  static Column column_of(const Layers& layers, const std::vector<std::string_view>& names) {
    return Column(layers, names);
  }
  static Cells cells_of(const Column& column, size_t row) {
    Cells cells;
    for (const ColumnChunk& chunk : column.chunks(row)) cells.push_back(chunk.cell);
    return cells;
  }

 private:
  std::vector<MadeLayer> made_;
  std::optional<Layers> layers_;
};

MadeArray four(const std::string& name, std::vector<test::MadeChunk> chunks = {{{0}, 0, 8}, {{1}, 8, 8}}) {
  return {.name = name, .shape = {4}, .chunk_shape = {2}, .chunks = std::move(chunks)};
}

TEST_F(Columns, ArraysThatAreAlikeShareALayout) {
  MadeArray filled = four("c"), longer = four("d"), divided = four("e");
  filled.fill = 7;
  longer.shape = {3};
  divided.chunk_shape = {4};
  const Column column = column_of(layers({{ByteString().zeros(16), {four("a"), four("b"), filled, longer, divided}}}),
                                  {"a", "b", "c", "d", "e"});
  EXPECT_EQ(column.layout_number(0), column.layout_number(1));
  for (size_t i = 1; i < 5; ++i) {
    for (size_t j = i + 1; j < 5; ++j) EXPECT_NE(column.layout_number(i), column.layout_number(j)) << i << ' ' << j;
  }
  EXPECT_EQ(column.layout(2).fill[0], std::byte{7});
  EXPECT_EQ(column.layout(3).n_elements, 3U);
  EXPECT_EQ(column.layout(4).n_cells, 1U);
}

TEST_F(Columns, NamesMayBeAbsent) {
  const Column column = column_of(layers({{ByteString().zeros(16), {four("a")}}}), {{}, "a"});
  EXPECT_EQ(column.n_rows(), 2U);
  EXPECT_FALSE(column.contains(0));
  EXPECT_FALSE(column.is_readable(0));
  EXPECT_TRUE(column.contains(1));
  EXPECT_TRUE(column.is_readable(1));
  EXPECT_EQ(column.name(1), "a");
}

TEST_F(Columns, ChunksAreSortedAndEachCellHasOne) {
  const MadeArray mixed = four("a", {{{1}, 8, 8}, {{0}, 0, 8}, {{1}, 0, 8}, {{2}, 0, 8}});
  const Column column = column_of(layers({{ByteString().zeros(16), {mixed}}}), {"a"});
  EXPECT_EQ(cells_of(column, 0), (Cells{0, 1}));
  EXPECT_EQ(column.chunks(0)[1].offset, 8U);  // the first of a cell counts, and none outside of the grid
}

TEST_F(Columns, ChunksOfTheNewestLayerCount) {
  const Column column = column_of(
      layers({{ByteString().zeros(16), {four("a")}}, {ByteString().zeros(16), {four("a", {{{1}, 4, 8}})}}}), {"a"});
  EXPECT_EQ(cells_of(column, 0), (Cells{0, 1}));
  EXPECT_EQ(column.chunks(0)[0].layer, 0U);
  EXPECT_EQ(column.chunks(0)[1].layer, 1U);
  EXPECT_EQ(column.chunks(0)[1].record().offset, 4U);
}

TEST_F(Columns, ForeignChunksAreRemembered) {
  MadeArray other = four("a", {});
  other.shape = {6};
  const Column column =
      column_of(layers({{ByteString().zeros(16), {four("a")}}, {ByteString().zeros(16), {other}}}), {"a"});
  EXPECT_TRUE(column.chunks(0).empty());
  EXPECT_EQ(column.layout(0).foreign_layer, 0U);
}

TEST_F(Columns, WhatIsWrongIsThrownWhereItIsUsed) {
  const MadeArray wide{.name = "b", .shape = std::vector<uint32_t>(65, 1)};
  const uint32_t most = 0xFFFFFFFF;
  const MadeArray huge{.name = "c", .shape = {most, most, most}, .chunk_shape = {1, 1, 1}};
  MadeArray deleted = four("d", {});
  deleted.deleted = true;
  MadeArray ranks = four("e", {{{0, 0}, 0, 8}});
  const Column column = column_of(layers({{ByteString().zeros(16), {four("a"), wide, huge, deleted, ranks}}}),
                                  {"a", "b", "c", "d", "e", "f"});
  EXPECT_EQ(column.layout(0).n_elements, 4U);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_TRUE(column.contains(i)) << i;
    EXPECT_FALSE(column.is_readable(i)) << i;
  }
  const auto error = [&](size_t row) { return test::data_error([&] { column.layout(row); }); };
  EXPECT_EQ(error(1), "layer 0: axes: expected at most 64, got 65 (field 'b')");
  EXPECT_NE(error(2).find("bytes of the array"), std::string::npos);
  EXPECT_EQ(error(3), "no such array (field 'd')");
  EXPECT_EQ(error(4), "layer 0: chunk coordinate: expected 1 axes, got 2 (field 'e')");
  EXPECT_EQ(error(5), "no such array (field 'f')");
}

TEST(ColumnTypes, AllWithAKnownEncoding) {
  EXPECT_EQ(column_type(Type::timestamp), (ColumnType{ColumnKind::numeric, DType::int64}));
  EXPECT_EQ(column_type(Type::string).kind, ColumnKind::text);
  EXPECT_EQ(column_type(Type::binary).kind, ColumnKind::bytes);
  for (uint8_t tag = 1; tag <= static_cast<uint8_t>(Type::float64); ++tag) {
    const auto type = static_cast<Type>(tag);
    EXPECT_EQ(name_of(column_type(type).dtype), name_of(type));
    EXPECT_EQ(atompack::item_bytes(column_type(type).dtype), item_bytes(type));
  }
  for (const Type type : {Type::boolean, Type::fixed_list, Type::list}) {
    EXPECT_EQ(test::unsupported([&] { column_type(type); }),
              cat("type: expected one with a known encoding, got ", name_of(type)));
  }
}

}  // namespace
}  // namespace atompack::array_file
