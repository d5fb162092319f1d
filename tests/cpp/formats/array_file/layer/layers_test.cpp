#include "formats/array_file/layer/layers.h"

#include <gtest/gtest.h>

#include "formats/array_file/archive_bytes.h"
#include "formats/array_file/read/reader.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::MadeArray;
using test::MadeLayer;

using Integers = std::vector<int32_t>;

// Four elements in two chunks, from `first` on.
MadeLayer base(int32_t first) {
  ByteString block;
  for (int32_t i = 0; i < 4; ++i) block.put(first + i);
  return {block, {{.shape = {4}, .chunk_shape = {2}, .chunks = {{{0}, 0, 8}, {{1}, 8, 8}}}}};
}

Layers layers_of(const std::vector<MadeLayer>& made) {
  std::vector<Layer> layers;
  for (const MadeLayer& layer : made) {
    layers.emplace_back(std::make_shared<io::MemoryBytes>(layer.file().bytes(), cat("layer ", layers.size())));
  }
  return Layers(std::move(layers));
}

Integers read_box(const Layers& layers, const Box& box) {
  Integers values(box.n_elements());
  DecodedBlock last;
  read_numbers(layers, layers.array("a"), box, std::as_writable_bytes(std::span(values)), last);
  return values;
}

Integers read_all(const Layers& layers) { return read_box(layers, layers.array("a").whole()); }

const MadeLayer kTombstone({}, {{.shape = {4}, .chunk_shape = {2}, .deleted = true}});

TEST(ArrayLayers, NewerChunksHideOlderOnes) {
  const std::vector<MadeLayer> made{
      base(0),
      {ByteString().put(int32_t{70}).put(int32_t{71}), {{.shape = {4}, .chunk_shape = {2}, .chunks = {{{1}, 0, 8}}}}}};
  EXPECT_EQ(read_all(layers_of(made)), (Integers{0, 1, 70, 71}));
  EXPECT_EQ(read_box(layers_of(made), {{1}, {2}}), (Integers{1, 70}));
}

TEST(ArrayLayers, DeletedArraysAreGone) {
  const std::vector<MadeLayer> made{base(0), kTombstone};
  const Layers layers = layers_of(made);
  EXPECT_TRUE(layers.names().empty());
  EXPECT_EQ(test::message_of<FieldError>([&] { layers.array("a"); }), "layer 0: no such array (field 'a')");
}

TEST(ArrayLayers, OlderChunksShowThroughADeletion) {
  const std::vector<MadeLayer> made{
      base(0),
      kTombstone,
      {ByteString().put(int32_t{9}).put(int32_t{8}), {{.shape = {4}, .chunk_shape = {2}, .chunks = {{{0}, 0, 8}}}}}};
  EXPECT_EQ(read_all(layers_of(made)), (Integers{9, 8, 2, 3}));
}

TEST(ArrayLayers, SlicesAndRoomAreChecked) {
  const std::vector<MadeLayer> made{base(0)};
  const Layers layers = layers_of(made);
  const auto error = [&](const Box& box, size_t room) {
    Integers values(room);
    DecodedBlock last;
    const auto out = std::as_writable_bytes(std::span(values));
    return test::message_of<FieldError>([&] { read_numbers(layers, layers.array("a"), box, out, last); });
  };
  EXPECT_EQ(error({{3}, {2}}, 2), "slice of axis 0: expected at most 4 elements, got start 3 and count 2 (field 'a')");
  EXPECT_EQ(error({{~uint64_t{0}}, {2}}, 2),
            "slice of axis 0: expected at most 4 elements, got start 18446744073709551615 and count 2 (field 'a')");
  EXPECT_EQ(error({{0, 0}, {1, 1}}, 1), "axes of the slice: expected 1, got 2 and 2 (field 'a')");
  EXPECT_EQ(error({{0}, {2}}, 1), "elements read: expected 8, got room for 4 (field 'a')");
}

TEST(ArrayLayers, TypesWithoutEncodingAreNamed) {
  const std::vector<MadeLayer> made{{{}, {{.type = 0, .shape = {1}, .chunk_shape = {1}}}}};
  EXPECT_EQ(test::unsupported([&] { read_all(layers_of(made)); }),
            "type: expected numbers or timestamps, got bool (field 'a')");
}

TEST(ArrayLayers, TooManyAxesAndElementsAreRefused) {
  const std::vector<MadeLayer> axes{{{}, {{.shape = std::vector<uint32_t>(65, 1)}}}};
  EXPECT_EQ(test::unsupported([&] { layers_of(axes).array("a"); }),
            "layer 0: axes: expected at most 64, got 65 (field 'a')");
  const uint32_t most = 0xFFFFFFFF;
  const std::vector<MadeLayer> elements{{{}, {{.shape = {0, most, most, most}}}}};
  EXPECT_NE(test::corrupt([&] { layers_of(elements).array("a"); }).find("overflows 64 bits"), std::string::npos);
}

}  // namespace
}  // namespace atompack::array_file
