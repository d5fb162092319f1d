#include "formats/array_file/layer/layers.h"

#include <gtest/gtest.h>

#include "formats/array_file/archive_bytes.h"
#include "formats/array_file/read/reader.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::MadeLayer;

using Integers = std::vector<int32_t>;

// Four elements in two chunks.
MadeLayer base() {
  const ByteString block = ByteString().put_all<int32_t>({0, 1, 2, 3});
  return {block, {{.shape = {4}, .chunk_shape = {2}, .chunks = {{{0}, 0, 8}, {{1}, 8, 8}}}}};
}

Layers layers_of(const std::vector<MadeLayer>& made) {
  std::vector<Layer> layers;
  for (const MadeLayer& layer : made) {
    layers.emplace_back(std::make_shared<io::MemoryBytes>(layer.file().bytes(), cat("layer ", layers.size())));
  }
  return Layers(std::move(layers));
}

Integers read_all(const Layers& layers) {
  const Array array = layers.array("a");
  Integers values(array.whole().n_elements());
  DecodedBlock last;
  read_numbers(layers, array, array.whole(), std::as_writable_bytes(std::span(values)), last);
  return values;
}

TEST(ArrayLayers, OlderChunksShowThroughADeletion) {
  const std::vector<MadeLayer> made{
      base(),
      {{}, {{.shape = {4}, .chunk_shape = {2}, .deleted = true}}},
      {ByteString().put_all<int32_t>({9, 8}), {{.shape = {4}, .chunk_shape = {2}, .chunks = {{{0}, 0, 8}}}}}};
  EXPECT_EQ(read_all(layers_of(made)), (Integers{9, 8, 2, 3}));
}

TEST(ArrayLayers, SlicesAndRoomAreChecked) {
  const std::vector<MadeLayer> made{base()};
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

}  // namespace
}  // namespace atompack::array_file
