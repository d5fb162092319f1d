#include "array_format/column_slice.h"

#include <algorithm>
#include <tuple>

#include "array_format/texts.h"

namespace atompack::array_format {
namespace {

// Of stored bytes that one thread copies at a time.
constexpr uint64_t kStretch = uint64_t{512} << 10;
// Cells that nobody wrote cost memory that no file justifies.
constexpr uint64_t kMostUnwritten = uint64_t{1} << 30;
constexpr uint64_t kFarTooMany = uint64_t{1} << 50;

uint64_t block_key(const ColumnChunk& chunk) { return uint64_t{chunk.layer} << 32 | chunk.block; }

uint64_t product(std::span<const uint64_t> counts) {
  uint64_t n = 1;
  for (const uint64_t count : counts) n *= count;
  return n;
}

// The cells that elements [start, start + count) of an axis lie in.
struct CellRange {
  std::vector<uint64_t> first, count;

  CellRange(const ColumnLayout& layout, std::span<const uint64_t> start, std::span<const uint64_t> n) {
    for (size_t i = 0; i < start.size(); ++i) {
      first.push_back(start[i] / layout.chunk_shape[i]);
      count.push_back((start[i] + n[i] - 1) / layout.chunk_shape[i] - first.back() + 1);
    }
  }

  uint64_t cell(const ColumnLayout& layout, std::span<const uint64_t> inside) const {
    uint64_t number = 0;
    for (size_t i = 0; i < first.size(); ++i) number = number * layout.grid[i] + first[i] + inside[i];
    return number;
  }

  bool contains(const ColumnLayout& layout, uint64_t cell) const {
    for (size_t i = first.size(); i-- > 0; cell /= layout.grid[i]) {
      const uint64_t at = cell % layout.grid[i];
      if (at < first[i] || at - first[i] >= count[i]) return false;
    }
    return true;
  }
};

// The next of `counts` positions, in row-major order; false behind the last.
bool next(std::vector<uint64_t>& position, std::span<const uint64_t> counts) {
  for (size_t i = position.size(); i-- > 0;) {
    if (++position[i] < counts[i]) return true;
    position[i] = 0;
  }
  return false;
}

// Calls `use` for the chunks of these cells, in order; whatever is shorter is walked over: the cells, or the chunks.
template <typename Use>
void for_each_chunk(const ColumnLayout& layout, const CellRange& cells, std::span<const ColumnChunk> chunks,
                    const Use& use) {
  std::vector<uint64_t> inside(cells.first.size(), 0);
  const uint64_t lowest = cells.cell(layout, inside);
  std::vector<uint64_t> end = cells.count;
  for (uint64_t& last : end) --last;
  const uint64_t highest = cells.cell(layout, end);
  const auto begin = std::ranges::lower_bound(chunks, lowest, {}, &ColumnChunk::cell);
  const auto behind = std::ranges::upper_bound(begin, chunks.end(), highest, {}, &ColumnChunk::cell);
  if (product(cells.count) > static_cast<uint64_t>(behind - begin)) {
    for (auto chunk = begin; chunk != behind; ++chunk) {
      if (cells.contains(layout, chunk->cell)) use(*chunk);
    }
    return;
  }
  do {
    const uint64_t cell = cells.cell(layout, inside);
    const auto found = std::ranges::lower_bound(begin, behind, cell, {}, &ColumnChunk::cell);
    if (found != behind && found->cell == cell) use(*found);
  } while (next(inside, cells.count));
}

template <typename Action>
auto in_layer(const Layer& layer, std::string_view array, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    error.at_field(std::string(array));
    error.in_file(layer.path());
    throw;
  }
}

}  // namespace

Slice::Slice(std::shared_ptr<const Column> column, std::span<const int64_t> rows, const SliceRequest& request,
             BlockCache& cache)
    : column_(std::move(column)), cache_(cache) {
  rows_.reserve(rows.size());
  pieces_.reserve(rows.size());
  for (const int64_t number : rows) add_row(static_cast<uint64_t>(number), request);
  group_pieces();
  check_unwritten();
}

void Slice::add_row(uint64_t number, const SliceRequest& request) {
  Row& row = rows_.emplace_back();
  row.number = number;
  if (!column_->contains(number)) return;
  try {
    row.layout = &column_->layout(number);
    row.type = column_type(row.layout->type);
    add_axes(row, request);
    add_pieces(row);
  } catch (DataError& error) {
    error.at_field(std::string(column_->name(number)));
    error.in_file(column_->layers().layer(0).path());
    throw;
  }
}

void Slice::add_axes(Row& row, const SliceRequest& request) {
  const std::vector<uint64_t>& shape = row.layout->shape;
  const auto check = [&](const std::optional<std::vector<uint64_t>>& given) {
    if (!given || given->size() == shape.size()) return;
    throw FieldError(cat("axes of the slice: expected ", shape.size(), ", got ", given->size()));
  };
  check(request.start);
  check(request.count);
  row.first_axis = axes_.size();
  row.is_whole = true;
  for (size_t i = 0; i < shape.size(); ++i)
    axes_.push_back(request.start ? std::min((*request.start)[i], shape[i]) : 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    const uint64_t rest = shape[i] - axes_[row.first_axis + i];
    axes_.push_back(request.count ? std::min((*request.count)[i], rest) : rest);
    row.is_whole = row.is_whole && axes_.back() == shape[i];
  }
}

void Slice::add_pieces(Row& row) {
  const ColumnLayout& layout = *row.layout;
  row.is_complete = product(count_of(row)) == 0;
  const std::span<const ColumnChunk> chunks = column_->chunks(row.number);
  if (row.is_complete || chunks.empty()) return;
  const uint64_t number = rows_.size() - 1;
  uint64_t n_cells = layout.n_cells;
  const size_t before = pieces_.size();
  if (row.is_whole) {
    for (const ColumnChunk& chunk : chunks) pieces_.push_back({block_key(chunk), number, &chunk});
  } else {
    const CellRange cells(layout, start_of(row), count_of(row));
    n_cells = product(cells.count);
    for_each_chunk(layout, cells, chunks,
                   [&](const ColumnChunk& chunk) { pieces_.push_back({block_key(chunk), number, &chunk}); });
  }
  row.is_complete = pieces_.size() - before == n_cells;
}

// Pieces by block, in the order in which they lie there.
void Slice::group_pieces() {
  const auto place = [](const Piece& piece) { return std::tuple(piece.block, piece.chunk->offset); };
  if (!std::ranges::is_sorted(pieces_, {}, place)) std::ranges::stable_sort(pieces_, {}, place);
  for (size_t first = 0; first < pieces_.size();) {
    const Piece& piece = pieces_[first];
    const Layer& layer = column_->layers().layer(piece.chunk->layer);
    Unit unit{first, first, in_layer(layer, name_of(piece), [&] { return layer.block(piece.chunk->block); })};
    const bool is_plain = unit.block.codec == codec::Codec::none;
    for (; unit.last < pieces_.size() && pieces_[unit.last].block == piece.block; ++unit.last) {
      if (is_plain && unit.wanted >= kStretch) break;
      check_piece(pieces_[unit.last], unit.block.decoded_bytes);
      unit.wanted += pieces_[unit.last].chunk->bytes;
    }
    first = unit.last;
    units_.push_back(unit);
  }
}

// Before any memory is taken for what the piece is said to hold.
void Slice::check_piece(const Piece& piece, uint64_t block_bytes) const {
  const ColumnLayout& layout = *rows_[piece.row].layout;
  const ColumnChunk& chunk = *piece.chunk;
  in_layer(column_->layers().layer(chunk.layer), name_of(piece), [&] {
    if (chunk.offset > block_bytes || chunk.bytes > block_bytes - chunk.offset) {
      throw CorruptFileError(cat("chunk: expected ", chunk.bytes, " bytes at ", chunk.offset, " of block ", chunk.block,
                                 ", got a block of ", block_bytes));
    }
    const uint64_t item = item_bytes(layout.type), n = cell_box(layout, chunk.cell).n_elements();
    if (item > 0 && chunk.bytes != n * item) {
      throw CorruptFileError(cat("chunk bytes: expected ", n * item, ", got ", chunk.bytes));
    }
    if (item == 0 && chunk.bytes / sizeof(uint32_t) <= n) {
      throw CorruptFileError(
          cat("chunk of ", n, " texts: expected at least ", n + 1, " offsets, got ", chunk.bytes, " bytes"));
    }
  });
}

void Slice::check_unwritten() const {
  uint64_t wanted = 0, written = 0;
  for (const Row& row : rows_) {
    if (row.layout == nullptr || row.is_complete) continue;
    if (row.layout->foreign_layer) fail_foreign(row);
    const uint64_t item = item_bytes(row.layout->type);
    const uint64_t n = product(count_of(row));
    // A text takes as much when it is empty. No sum overflows: no array has more than 2^63 bytes.
    wanted = std::min(kFarTooMany, wanted + std::min(kFarTooMany, n) * (item > 0 ? item : sizeof(std::string)));
  }
  for (const Unit& unit : units_) written += unit.wanted;
  if (wanted <= written || wanted - written <= kMostUnwritten) return;
  throw FieldError(cat("slice: expected at most ", kMostUnwritten, " bytes of cells that were never written, got ",
                       wanted - written));
}

void Slice::fail_foreign(const Row& row) const {
  throw CorruptFileError("cells without a chunk: older chunks were made for another type, shape or chunk shape")
      .in_file(column_->layers().layer(*row.layout->foreign_layer).path())
      .at_field(std::string(column_->name(row.number)));
}

Box Slice::cell_box(const ColumnLayout& layout, uint64_t cell) {
  Box box{layout.shape, layout.shape};
  for (size_t i = layout.grid.size(); i-- > 0; cell /= layout.grid[i]) {
    box.start[i] = cell % layout.grid[i] * layout.chunk_shape[i];
    box.count[i] = std::min(layout.chunk_shape[i], layout.shape[i] - box.start[i]);
  }
  return box;
}

void Slice::fill(ColumnVisitor& visitor) const {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.layout == nullptr || row.is_complete || row.type.kind != ColumnKind::numeric) continue;
    visitor.fill(i, Bytes(row.layout->fill).first(item_bytes(row.layout->type)));
  }
}

void Slice::read(size_t number, ColumnVisitor& visitor) const {
  const Unit& unit = units_[number];
  const Piece& piece = pieces_[unit.first];
  in_layer(column_->layers().layer(piece.chunk->layer), name_of(piece), [&] {
    if (unit.block.codec == codec::Codec::none) return hand_out(unit, unit.block.stored, visitor);
    const std::pair key(column_->layers().layer(piece.chunk->layer).serial(), piece.chunk->block);
    if (const auto kept = cache_.find(key)) return hand_out(unit, kept->bytes(), visitor);
    if (decode_in_place(unit, visitor)) return;
    if (2 * unit.wanted >= unit.block.decoded_bytes) {  // most of it is used up at once
      thread_local std::vector<std::byte> scratch;
      return hand_out(unit, decode_block(unit.block, scratch), visitor);
    }
    auto decoded = std::make_shared<DecodedBytes>(unit.block.decoded_bytes);
    decode_block(unit.block, decoded->writable());
    hand_out(unit, cache_.keep(key, decoded, decoded->bytes().size())->bytes(), visitor);
  });
}

// Where a whole block goes, as it is, into one stretch of the output: decodes it there.
bool Slice::decode_in_place(const Unit& unit, ColumnVisitor& visitor) const {
  if (unit.wanted != unit.block.decoded_bytes) return false;
  std::byte* begin = nullptr;
  uint64_t offset = 0;
  for (const Piece& piece : std::span(pieces_).subspan(unit.first, unit.last - unit.first)) {
    const Row& row = rows_[piece.row];
    if (piece.chunk->offset != offset || !row.is_whole || row.layout->n_cells != 1) return false;
    if (row.type.kind != ColumnKind::numeric) return false;
    std::byte* const at = visitor.place(piece.row, 0, row.layout->n_elements);
    if (at == nullptr || (offset > 0 && at != begin + offset)) return false;
    if (offset == 0) begin = at;
    offset += piece.chunk->bytes;
  }
  decode_block(unit.block, std::span(begin, unit.block.decoded_bytes));
  return true;
}

void Slice::hand_out(const Unit& unit, Bytes block, ColumnVisitor& visitor) const {
  for (const Piece& piece : std::span(pieces_).subspan(unit.first, unit.last - unit.first)) {
    in_layer(column_->layers().layer(piece.chunk->layer), name_of(piece),
             [&] { hand_out(piece, block.subspan(piece.chunk->offset, piece.chunk->bytes), visitor); });
  }
}

void Slice::hand_out(const Piece& piece, Bytes chunk, ColumnVisitor& visitor) const {
  const Row& row = rows_[piece.row];
  const ColumnLayout& layout = *row.layout;
  const bool is_numeric = row.type.kind == ColumnKind::numeric;
  if (is_numeric && row.is_whole && layout.n_cells == 1) return visitor.values(piece.row, 0, chunk);
  const Box cell = cell_box(layout, piece.chunk->cell);
  const auto start = start_of(row), count = count_of(row);
  const Box slice{{start.begin(), start.end()}, {count.begin(), count.end()}};
  if (is_numeric) {
    const uint64_t item = item_bytes(layout.type);
    return for_each_common_run(cell, slice, [&](uint64_t from, uint64_t to, uint64_t n) {
      visitor.values(piece.row, to, chunk.subspan(from * item, n * item));
    });
  }
  const Texts texts(chunk, cell.n_elements());
  for_each_common_run(cell, slice, [&](uint64_t from, uint64_t to, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const Bytes text = texts.at(from + i);
      if (row.type.kind == ColumnKind::text) {
        visitor.text(piece.row, to + i, as_bytes(well_formed(text)));
      } else {
        visitor.text(piece.row, to + i, text);
      }
    }
  });
}

}  // namespace atompack::array_format
