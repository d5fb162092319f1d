#include "formats/array_file/read/grid.h"

#include <algorithm>

namespace atompack::array_file {

Grid::Grid(std::vector<uint64_t> shape, std::vector<uint64_t> chunk_shape)
    : shape_(std::move(shape)), chunk_shape_(std::move(chunk_shape)), cells_(shape_.size(), 0) {
  for (size_t i = 0; i < cells_.size(); ++i) {
    const uint64_t extent = chunk_shape_[i];
    if (extent > 0) cells_[i] = shape_[i] / extent + (shape_[i] % extent > 0 ? 1 : 0);
  }
}

uint64_t Grid::n_cells() const {
  uint64_t n = 1;
  for (const uint64_t cells : cells_) n *= cells;
  return n;
}

uint64_t Grid::number_of(const std::vector<uint64_t>& cell) const {
  uint64_t number = 0;
  for (size_t i = 0; i < cell.size(); ++i) number = number * cells_[i] + cell[i];
  return number;
}

std::vector<uint64_t> Grid::cell_at(uint64_t number) const {
  std::vector<uint64_t> cell(cells_.size());
  for (size_t i = cell.size(); i-- > 0;) {
    cell[i] = number % cells_[i];
    number /= cells_[i];
  }
  return cell;
}

Box Grid::box_of(const std::vector<uint64_t>& cell) const {
  Box box{cell, cell};
  for (size_t i = 0; i < cell.size(); ++i) {
    box.start[i] = cell[i] * chunk_shape_[i];
    box.count[i] = std::min(chunk_shape_[i], shape_[i] - box.start[i]);
  }
  return box;
}

std::optional<Box> Grid::cells_meeting(const Box& box) const {
  Box cells = box;
  for (size_t i = 0; i < box.start.size(); ++i) {
    const uint64_t extent = chunk_shape_[i];
    if (extent == 0) return std::nullopt;
    cells.start[i] = box.start[i] / extent;
    cells.count[i] = (box.start[i] + box.count[i] - 1) / extent - cells.start[i] + 1;
  }
  return cells;
}

bool advance(std::vector<uint64_t>& cell, const Box& cells) {
  for (size_t i = cell.size(); i-- > 0;) {
    if (++cell[i] < cells.start[i] + cells.count[i]) return true;
    cell[i] = cells.start[i];
  }
  return false;
}

}  // namespace atompack::array_file
