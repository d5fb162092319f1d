// One array as all layers together describe it, and which chunk fills which cell of its grid.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "array_format/box.h"
#include "array_format/footer.h"

namespace atompack::array_format {

// More axes than NumPy knows are refused.
constexpr uint64_t kMostAxes = 64;

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
  // The elements of a cell, clipped at the edges.
  Box cell_box(const std::vector<uint64_t>& cell) const;
};

// How many cells along each axis; none where chunks have no extent.
std::vector<uint64_t> grid_of(const Array& array);

// Throws CorruptFileError where the number of bytes of the whole array overflows, UnsupportedFormatError for too many
// axes.
void check_extent(const Array& array);

// The value of cells without a chunk as it lies in memory: the first item_bytes(array.type) of these.
std::array<std::byte, 8> fill_item(const Array& array);

}  // namespace atompack::array_format
