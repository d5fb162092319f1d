// Chunks of an array that overlap a box of its cells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/array_file/read/grid.h"

namespace atompack::array_file {

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

}  // namespace atompack::array_file
