#include "formats/array_file/read/column.h"

#include <algorithm>
#include <array>

namespace atompack::array_file {
namespace {

// Appends to a key that is equal for records with equal type, shape, chunk shape and fill value.
void append(std::string& key, const Footer& footer, Run integers) {
  const auto add = [&](uint32_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(static_cast<uint32_t>(integers.count));
  for (uint64_t i = 0; i < integers.count; ++i) add(footer.integer(integers, i));
}

std::string_view fill_as_string(const std::array<std::byte, 8>& item) {
  return {reinterpret_cast<const char*>(item.data()), item.size()};
}

ColumnLayout layout_of(const Array& array) {
  check_extent(array);
  ColumnLayout layout;
  layout.type = array.type;
  layout.shape = array.shape;
  layout.fill = fill_item(array.type, array.fill);
  layout.n_elements = array.n_elements();
  layout.foreign_layer = array.foreign_layer;
  if (array.chunk_shape.size() == array.shape.size()) layout.grid = array.grid();
  layout.n_cells = layout.grid.n_cells();
  return layout;
}

}  // namespace

Column::Column(const Layers& layers, std::span<const std::string_view> names) : layers_(&layers) {
  names_.reserve(names.size());
  rows_.reserve(names.size());
  for (const std::string_view name : names) add(name);
}

void Column::add(std::string_view name) {
  rows_.emplace_back();
  names_.push_back(name);
  if (name.data() == nullptr) return;
  try {
    // Rows usually are in the order of the footer.
    if (const auto single = layers_->find_single(name, n_found_++); single && add_single(*single)) return;
    add_array(layers_->array(name));
  } catch (const DataError&) {  // thrown again when this row is used; other rows are not affected
    rows_.back().layout = kWrong;
  }
}

// Fast path that does not copy the record; false if anything is unusual.
bool Column::add_single(const Layers::SingleRecord& single) {
  const Footer& footer = layers_->layer(single.layer).footer();
  const ArrayRecord& record = single.record;
  if (record.chunk_shape.count != record.shape.count || record.shape.count > kMaxAxes) return false;
  const uint32_t number = layout_of(footer, record);
  const ColumnLayout& layout = layouts_[number];
  const size_t first = chunks_.size();
  for (uint64_t i = 0; i < record.chunks.count; ++i) {
    auto chunk = place(layout, footer, footer.chunk(record.chunks, i));
    if (!chunk || (chunks_.size() > first && chunk->cell <= chunks_.back().cell)) {
      chunks_.resize(first);
      return false;
    }
    chunk->layer = single.layer;
    chunks_.push_back(*chunk);
  }
  rows_.back() = {number, static_cast<uint32_t>(chunks_.size() - first), first};
  return true;
}

uint32_t Column::layout_of(const Footer& footer, const ArrayRecord& record) {
  std::string& key = key_;
  key.assign(1, static_cast<char>(record.type));
  append(key, footer, record.shape);
  append(key, footer, record.chunk_shape);
  key += fill_as_string(fill_item(record.type, record.fill));
  if (key == last_key_) return last_number_;
  if (const auto found = layout_numbers_.find(key); found != layout_numbers_.end()) return found->second;
  Array array;
  array.type = record.type;
  array.fill = record.fill;
  array.shape = footer.integers(record.shape);
  array.chunk_shape = footer.integers(record.chunk_shape);
  layouts_.push_back(array_file::layout_of(array));  // throws if there is no such array
  const auto number = static_cast<uint32_t>(layouts_.size() - 1);
  layout_numbers_.emplace(key, number);
  last_key_ = key;
  last_number_ = number;
  return number;
}

std::optional<ColumnChunk> Column::place(const ColumnLayout& layout, const Footer& footer,
                                         const ChunkRecord& chunk) const {
  const std::vector<uint64_t>& cells = layout.grid.cells();
  if (chunk.coordinate.count != cells.size()) return std::nullopt;
  ColumnChunk placed{0, 0, chunk.block, chunk.offset, chunk.bytes};
  for (size_t i = 0; i < cells.size(); ++i) {
    const uint32_t at = footer.integer(chunk.coordinate, i);
    if (at >= cells[i]) return std::nullopt;
    placed.cell = placed.cell * cells[i] + at;
  }
  return placed;
}

void Column::add_array(const Array& array) {
  layouts_.push_back(array_file::layout_of(array));
  const size_t first = chunks_.size();
  for (const StoredChunk& stored : array.chunks) {
    chunks_.push_back({stored.cell, stored.layer, stored.chunk.block, stored.chunk.offset, stored.chunk.bytes});
  }
  rows_.back() = {static_cast<uint32_t>(layouts_.size() - 1), static_cast<uint32_t>(array.chunks.size()), first};
}

const ColumnLayout& Column::layout(size_t row) const { return layouts_[layout_number(row)]; }

uint32_t Column::layout_number(size_t row) const {
  if (rows_[row].layout == kWrong) fail(row);
  return rows_[row].layout;
}

std::span<const ColumnChunk> Column::chunks(size_t row) const {
  return std::span(chunks_).subspan(rows_[row].first_chunk, rows_[row].n_chunks);
}

void Column::fail(size_t row) const {
  if (!layers_->contains(names_[row])) {
    throw CorruptFileError("no such array").at_field(names_[row]);
  }
  check_extent(layers_->array(names_[row]));
  throw InternalError("no error found in an unreadable array");
}

std::optional<HeldArray> find_held(const Column& column, size_t row, BlockCache& cache) {
  if (!column.is_readable(row) || column.chunks(row).size() != 1) return std::nullopt;
  const ColumnLayout& layout = column.layout(row);
  const ColumnChunk& chunk = column.chunks(row).front();
  const uint64_t item = item_bytes(layout.type);
  if (layout.n_cells != 1 || item == 0 || layout.type == Type::boolean) return std::nullopt;
  auto block = cache.find({column.layers().layer(chunk.layer).serial(), chunk.block, kWholeBlock});
  if (!block) return std::nullopt;
  cache.count(true);
  const Bytes bytes = block->bytes();
  // Errors are those of reading it in the usual way.
  if (chunk.bytes != layout.n_elements * item || chunk.offset > bytes.size()) return std::nullopt;
  if (chunk.bytes > bytes.size() - chunk.offset) return std::nullopt;
  return HeldArray{column_type(layout.type).dtype, layout.shape, bytes.subspan(chunk.offset, chunk.bytes), block};
}

ColumnType column_type(Type type) {
  constexpr std::array<std::optional<DType>, 16> kNumbers = {
      std::nullopt,  DType::int8,   DType::int16,  DType::int32,   DType::int64,   DType::uint8,
      DType::uint16, DType::uint32, DType::uint64, DType::float32, DType::float64, std::nullopt,
      std::nullopt,  std::nullopt,  std::nullopt,  DType::int64};
  if (type == Type::string) return {ColumnKind::text};
  if (type == Type::binary) return {ColumnKind::bytes};
  if (const std::optional<DType> dtype = kNumbers.at(static_cast<size_t>(type))) return {ColumnKind::numeric, *dtype};
  throw UnsupportedFormatError(cat("type: expected one with a known encoding, got ", name_of(type)));
}

}  // namespace atompack::array_file
