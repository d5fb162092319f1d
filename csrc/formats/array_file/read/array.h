// Array as described by all layers together, with the chunk of each cell of its grid.
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

// NumPy's maximum.
constexpr uint64_t kMaxAxes = 64;

struct StoredChunk {
  uint64_t cell = 0;  // number in the grid, in row-major order
  uint32_t layer = 0;
  uint64_t entry = 0;  // index in the layer's list
  ChunkRecord chunk;
};

// Its fill value is in the reader's file, which must outlive it.
struct Array {
  std::string name;
  Type type = Type::boolean;
  std::vector<uint64_t> shape, chunk_shape;
  std::vector<std::string> dimension_names;
  std::optional<Fill> fill;
  std::vector<Attribute> attributes;

  std::vector<StoredChunk> chunks;  // by cell, each cell once
  // Newest layer with chunks for another shape or type: because of them the values of cells without a chunk are
  // unknown.
  std::optional<uint32_t> foreign_layer;

  uint64_t n_elements() const;
  Box whole() const { return {std::vector<uint64_t>(shape.size(), 0), shape}; }
  // The chunk of a cell, or nullptr.
  const StoredChunk* chunk_of(uint64_t cell) const;
  // Requires that both shapes have the same rank, which holds for arrays with chunks.
  Grid grid() const { return {shape, chunk_shape}; }
};

// Throws CorruptFileError if the size of the whole array in bytes overflows, UnsupportedFormatError for too many axes.
void check_extent(const Array& array);

// The value of cells without a chunk, as in memory: the first item_bytes(type) bytes.
std::array<std::byte, 8> fill_item(Type type, const std::optional<Fill>& fill);

}  // namespace atompack::array_file
