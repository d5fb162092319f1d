// Grid that divides the elements of an array into cells, each filled by one chunk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/array_file/read/box.h"

namespace atompack::array_file {

// Shape and chunk shape have the same rank. A cell is given by its coordinates or by its number in row-major order.
class Grid {
 public:
  Grid(std::vector<uint64_t> shape, std::vector<uint64_t> chunk_shape);

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

}  // namespace atompack::array_file
