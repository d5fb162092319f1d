// One array as all layers together describe it, and which chunk fills which cell of its grid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/layer/footer.h"
#include "formats/array_file/read/box.h"
#include "formats/array_file/read/grid.h"

namespace atompack::array_file {

// More axes than NumPy knows are refused.
constexpr uint64_t kMaxAxes = 64;

struct StoredChunk {
  uint64_t cell = 0;  // its number in the grid, in row-major order
  uint32_t layer = 0;
  uint64_t entry = 0;  // in the layer's list
  ChunkRecord chunk;
};

// Its fill value lies in the reader's file, so it must not outlive that.
struct Array {
  std::string name;
  Type type = Type::boolean;
  std::vector<uint64_t> shape, chunk_shape;
  std::vector<std::string> dimension_names;
  std::optional<Fill> fill;
  std::vector<Attribute> attributes;

  std::vector<StoredChunk> chunks;  // by cell, each cell once
  // The layer below which chunks lie that were made for another shape or type, so that nobody knows what cells without
  // a chunk hold.
  std::optional<uint32_t> foreign_layer;

  uint64_t n_elements() const;
  Box whole() const { return {std::vector<uint64_t>(shape.size(), 0), shape}; }
  // The chunk of a cell, if it has one.
  const StoredChunk* chunk_of(uint64_t cell) const;
  // For who knows that both shapes have as many axes: those of an array with chunks.
  Grid grid() const { return {shape, chunk_shape}; }
};

// Throws CorruptFileError where the number of bytes of the whole array overflows, UnsupportedFormatError for too many
// axes.
void check_extent(const Array& array);

// The value of cells without a chunk as it lies in memory: the first item_bytes(type) of these.
std::array<std::byte, 8> fill_item(Type type, const std::optional<Fill>& fill);

}  // namespace atompack::array_file
