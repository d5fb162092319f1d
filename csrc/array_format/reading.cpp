#include "array_format/reading.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "array_format/texts.h"
#include "base/checked_math.h"

namespace atompack::array_format {
namespace {

// A chunk, and the elements that it holds.
struct Piece {
  const StoredChunk* stored = nullptr;
  Box box;
};

// The chunks that a box needs, those of one block together.
struct Pieces {
  std::vector<Piece> pieces;
  bool complete = true;  // each cell has one
};

void check_box(const Array& array, const Box& box) {
  if (box.start.size() != array.shape.size() || box.count.size() != array.shape.size()) {
    throw FieldError(
        cat("axes of the slice: expected ", array.shape.size(), ", got ", box.start.size(), " and ", box.count.size()));
  }
  for (size_t i = 0; i < box.start.size(); ++i) {
    if (box.start[i] <= array.shape[i] && box.count[i] <= array.shape[i] - box.start[i]) continue;
    throw FieldError(cat("slice of axis ", i, ": expected at most ", array.shape[i], ", got ", box.start[i], " and ",
                         box.count[i], " more"));
  }
}

void check_length(uint64_t expected, uint64_t got) {
  if (expected != got) throw FieldError(cat("elements read: expected ", expected, ", got room for ", got));
}

// The cells that a box meets; none where chunks have no extent.
std::optional<Box> cells_of(const Array& array, const Box& box) {
  Box cells = box;
  for (size_t i = 0; i < box.start.size(); ++i) {
    const uint64_t extent = array.chunk_shape[i];
    if (extent == 0) return std::nullopt;
    cells.start[i] = box.start[i] / extent;
    cells.count[i] = (box.start[i] + box.count[i] - 1) / extent - cells.start[i] + 1;
  }
  return cells;
}

// The next cell of a box of cells, in row-major order; false behind the last.
bool advance(std::vector<uint64_t>& cell, const Box& cells) {
  for (size_t i = cell.size(); i-- > 0;) {
    if (++cell[i] < cells.start[i] + cells.count[i]) return true;
    cell[i] = cells.start[i];
  }
  return false;
}

const StoredChunk* find_chunk(const Array& array, const std::vector<uint64_t>& cell,
                              const std::vector<uint64_t>& grid) {
  uint64_t number = 0;
  for (size_t i = 0; i < cell.size(); ++i) number = number * grid[i] + cell[i];
  const auto found = std::ranges::lower_bound(array.chunks, number, {}, &StoredChunk::cell);
  return found != array.chunks.end() && found->cell == number ? &*found : nullptr;
}

Pieces find_pieces(const Array& array, const Box& box) {
  Pieces found;
  const std::optional<Box> cells = array.chunks.empty() ? std::nullopt : cells_of(array, box);
  if (!cells) return {{}, false};
  const std::vector<uint64_t> grid = grid_of(array);
  std::vector<uint64_t> cell = cells->start;
  do {
    if (const StoredChunk* const stored = find_chunk(array, cell, grid)) {
      found.pieces.push_back({stored, array.cell_box(cell)});
    } else {
      found.complete = false;
    }
  } while (advance(cell, *cells));
  std::ranges::sort(found.pieces, {}, [](const Piece& piece) {
    return std::tuple(piece.stored->layer, piece.stored->chunk.block, piece.stored->chunk.offset);
  });
  return found;
}

void check_cells_are_known(const Layers& layers, const Array& array, const Pieces& pieces) {
  if (pieces.complete || !array.foreign_layer) return;
  throw CorruptFileError("cells without a chunk: older chunks were made for another type, shape or chunk shape")
      .in_file(layers.layer(*array.foreign_layer).path());
}

void repeat(Bytes item, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += item.size()) store(out.data() + at, item);
}

// Adds the name of the array to errors.
template <typename Action>
void for_array(const Array& array, const Action& action) {
  try {
    action();
  } catch (DataError& error) {
    error.at_field(array.name);
    throw;
  }
}

// The pieces of a box that was checked. Calls use(piece, its bytes).
template <typename Use>
void read_pieces(const Layers& layers, const Pieces& pieces, DecodedBlock& last, const Use& use) {
  for (const Piece& piece : pieces.pieces) {
    const Layer& layer = layers.layer(piece.stored->layer);
    const Bytes bytes = layer.read(piece.stored->chunk, last);
    try {
      use(piece, bytes);
    } catch (DataError& error) {
      error.in_file(layer.path());
      throw;
    }
  }
}

}  // namespace

void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last) {
  for_array(array, [&] {
    const uint64_t item = item_bytes(array.type);
    if (item == 0 || array.type == Type::boolean) {
      throw UnsupportedFormatError(cat("array of numbers: no such values are known of type ", name_of(array.type)));
    }
    check_box(array, box);
    check_length(box.n_elements() * item, out.size());  // no overflow: the whole array's bytes have none
    if (out.empty()) return;
    const Pieces pieces = find_pieces(array, box);
    check_cells_are_known(layers, array, pieces);
    const std::array<std::byte, 8> fill = fill_item(array);
    if (!pieces.complete) repeat(Bytes(fill).first(item), out);
    read_pieces(layers, pieces, last, [&](const Piece& piece, Bytes bytes) {
      if (const uint64_t expected = piece.box.n_elements() * item; bytes.size() != expected) {
        throw CorruptFileError(cat("chunk bytes: expected ", expected, ", got ", bytes.size()));
      }
      for_each_common_run(piece.box, box, [&](uint64_t from, uint64_t to, uint64_t n) {
        store(out.data() + to * item, bytes.subspan(from * item, n * item));
      });
    });
  });
}

void read_texts(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                DecodedBlock& last) {
  for_array(array, [&] {
    if (array.type != Type::string && array.type != Type::binary) {
      throw UnsupportedFormatError(cat("array of texts: no such values are known of type ", name_of(array.type)));
    }
    check_box(array, box);
    check_length(box.n_elements(), out.size());
    if (out.empty()) return;
    const Pieces pieces = find_pieces(array, box);
    check_cells_are_known(layers, array, pieces);
    for (std::string& text : out) text.clear();  // a fill value is not used for texts
    read_pieces(layers, pieces, last, [&](const Piece& piece, Bytes bytes) {
      const Texts texts(bytes, piece.box.n_elements());
      for_each_common_run(piece.box, box, [&](uint64_t from, uint64_t to, uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) {
          const Bytes text = texts.at(from + i);
          out[to + i] = array.type == Type::string ? well_formed(text) : std::string(as_text(text));
        }
      });
    });
  });
}

}  // namespace atompack::array_format
