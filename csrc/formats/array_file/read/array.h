// Array as described by all layers together, with the chunk of each cell of its grid.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

// Boxes of elements in an array, and their overlap.

// Elements start[i] to start[i] + count[i] along each axis, in row-major order. Without axes: one element.
struct Box {
  std::vector<uint64_t> start, count;

  uint64_t n_elements() const;
};

bool contains(const Box& box, const std::vector<uint64_t>& at);

// Intersection of two boxes of equal rank, as a sequence of runs of maximum length.
class Overlap {
 public:
  Overlap(const Box& a, const Box& b);

  bool empty() const { return empty_; }
  uint64_t run() const { return run_; }
  uint64_t in_a() const { return in_a_; }
  uint64_t in_b() const { return in_b_; }
  // Moves to the next run; false at the end.
  bool advance();

 private:
  struct Axis {
    uint64_t count = 0, a_stride = 0, b_stride = 0, position = 0;
  };

  bool empty_ = false;
  uint64_t run_ = 1, in_a_ = 0, in_b_ = 0;
  std::vector<Axis> axes_;  // axes outside of the runs, the innermost last
};

// Calls `copy(element in a, element in b, number of elements)` for each run. Elements are counted within each box.
template <typename Copy>
void for_each_common_run(const Box& a, const Box& b, const Copy& copy) {
  Overlap overlap(a, b);
  if (overlap.empty()) return;
  do {
    copy(overlap.in_a(), overlap.in_b(), overlap.run());
  } while (overlap.advance());
}

// Grid that divides the elements of an array into cells, each filled by one chunk.

// Shape and chunk shape have the same rank. A cell is given by its coordinates or by its number in row-major order.
class Grid {
 public:
  Grid(std::vector<uint64_t> shape, std::vector<uint64_t> chunk_shape);

  bool operator==(const Grid&) const = default;

  // Along each axis; 0 if chunks have no extent.
  const std::vector<uint64_t>& cells() const { return cells_; }
  uint64_t n_cells() const;
  uint64_t number_of(const std::vector<uint64_t>& cell) const;
  std::vector<uint64_t> cell_at(uint64_t number) const;
  // The elements of a cell, clipped at the edges.
  Box box_of(const std::vector<uint64_t>& cell) const;
  // The cells that a box of elements overlaps, at least one; nullopt if chunks have no extent.
  std::optional<Box> cells_meeting(const Box& box) const;

 private:
  std::vector<uint64_t> shape_, chunk_shape_, cells_;
};

// Moves to the next cell of a box, in row-major order; false at the end.
bool advance(std::vector<uint64_t>& cell, const Box& cells);

// Chunks of an array that overlap a box of its cells.

// Calls `use` for the chunks of these cells, in order. Chunks are sorted by `cell`, the number in the grid. Iterates
// over the cells or the chunks, whichever are fewer.
template <typename Chunk, typename Use>
void for_each_chunk_in(const Grid& grid, const Box& cells, std::span<const Chunk> chunks, const Use& use) {
  std::vector<uint64_t> last = cells.start;
  for (size_t i = 0; i < last.size(); ++i) last[i] += cells.count[i] - 1;
  const auto begin = std::ranges::lower_bound(chunks, grid.number_of(cells.start), {}, &Chunk::cell);
  const auto end = std::ranges::upper_bound(begin, chunks.end(), grid.number_of(last), {}, &Chunk::cell);
  if (cells.n_elements() > static_cast<uint64_t>(end - begin)) {
    for (auto chunk = begin; chunk != end; ++chunk) {
      if (contains(cells, grid.cell_at(chunk->cell))) use(*chunk);
    }
    return;
  }
  std::vector<uint64_t> cell = cells.start;
  do {
    const auto found = std::ranges::lower_bound(begin, end, grid.number_of(cell), {}, &Chunk::cell);
    if (found != end && found->cell == grid.number_of(cell)) use(*found);
  } while (advance(cell, cells));
}

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
  // Newest layer with chunks for a different shape or type: because of them the values of cells without a chunk are
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
