// Column: one array under each of many names, located once, for scans over thousands of small arrays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/array.h"
#include "model/column_source.h"

namespace atompack::array_file {

// Properties shared by arrays that differ only in their values.
struct ColumnLayout {
  Type type = Type::boolean;
  std::vector<uint64_t> shape;
  Grid grid{{}, {}};
  std::array<std::byte, 8> fill{};
  uint64_t n_elements = 1;
  uint64_t n_cells = 1;
  // Layer because of which cells without a chunk are unknown: see Array.
  std::optional<uint32_t> foreign_layer;
};

// A chunk; `cell` is its number in the grid.
struct ColumnChunk {
  uint64_t cell = 0;
  uint32_t layer = 0;
  uint32_t block = 0, offset = 0, bytes = 0;

  ChunkRecord record() const { return {{}, block, offset, bytes}; }
};

// Keeps a view of the layers. Immutable, so safe to share between threads.
class Column {
 public:
  // One row for each of `names`, which must outlive the column; a null name has no array.
  Column(const Layers& layers, std::span<const std::string_view> names);

  const Layers& layers() const { return *layers_; }
  size_t n_rows() const { return rows_.size(); }

  // True if there is such an array.
  bool contains(size_t row) const { return rows_[row].layout != kAbsent; }

  // True if the footers show no error of the array.
  bool is_readable(size_t row) const { return rows_[row].layout < kWrong; }

  // Requires contains(row).
  std::string_view name(size_t row) const { return names_[row]; }

  // Requires contains(row). Throws the array's error, if any.
  const ColumnLayout& layout(size_t row) const;
  uint32_t layout_number(size_t row) const;
  // Sorted by cell.
  std::span<const ColumnChunk> chunks(size_t row) const;

 private:
  static constexpr uint32_t kAbsent = 0xFFFFFFFF, kWrong = 0xFFFFFFFE;

  struct Row {
    uint32_t layout = kAbsent;
    uint32_t n_chunks = 0;
    uint64_t first_chunk = 0;
  };

  void add(std::string_view name);
  bool add_single(const Layers::SingleRecord& single);
  void add_array(const Array& array);
  uint32_t layout_of(const Footer& footer, const ArrayRecord& record);
  std::optional<ColumnChunk> place(const ColumnLayout& layout, const Footer& footer, const ChunkRecord& chunk) const;
  [[noreturn]] void fail(size_t row) const;

  const Layers* layers_;
  std::vector<std::string_view> names_;  // in the footers
  std::vector<Row> rows_;
  std::vector<ColumnChunk> chunks_;
  std::vector<ColumnLayout> layouts_;
  std::unordered_map<std::string, uint32_t> layout_numbers_;  // by key
  std::string key_, last_key_;                                // of this record, and of the last new layout
  uint32_t last_number_ = 0, n_found_ = 0;
};

// Returns the array of a row of numbers if it is one chunk of a block that the cache holds.
std::optional<HeldArray> find_held(const Column& column, size_t row, BlockCache& cache);

// Throws UnsupportedFormatError for values without a known encoding.
ColumnType column_type(Type type);

}  // namespace atompack::array_file
