// One array of each of many names, found once: what scans over thousands of small arrays start from.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/grid.h"
#include "model/column_source.h"

namespace atompack::array_file {

// What arrays have in common that differ in their values alone.
struct ColumnLayout {
  Type type = Type::boolean;
  std::vector<uint64_t> shape;
  Grid grid{{}, {}};
  std::array<std::byte, 8> fill{};
  uint64_t n_elements = 1;
  uint64_t n_cells = 1;
  // Cells without a chunk hold nobody knows what, because of this layer: see Array.
  std::optional<uint32_t> foreign_layer;
};

// A chunk without its coordinate: `cell` is its number in the grid.
struct ColumnChunk {
  uint64_t cell = 0;
  uint32_t layer = 0;
  uint32_t block = 0, offset = 0, bytes = 0;

  ChunkRecord record() const { return {{}, block, offset, bytes}; }
};

// Keeps a view of the layers. Immutable, so safe to share between threads.
class Column {
 public:
  // A row for each of `names`, which outlive it; none where a name is null.
  Column(const Layers& layers, std::span<const std::string_view> names);

  const Layers& layers() const { return *layers_; }
  size_t n_rows() const { return rows_.size(); }

  // Whether there is such an array.
  bool contains(size_t row) const { return rows_[row].layout != kAbsent; }

  // Whether nothing is wrong with it, as far as the footers tell.
  bool is_readable(size_t row) const { return rows_[row].layout < kWrong; }

  // That of a row that there is.
  std::string_view name(size_t row) const { return names_[row]; }

  // Of a row that there is. Throws what is wrong with the array, if something is.
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
  bool add_sole(const Layers::Sole& sole);
  void add_array(const Array& array);
  uint32_t layout_of(const Footer& footer, const ArrayRecord& record);
  std::optional<ColumnChunk> place(const ColumnLayout& layout, const Footer& footer, const ChunkRecord& chunk) const;
  [[noreturn]] void fail(size_t row) const;

  const Layers* layers_;
  std::vector<std::string_view> names_;  // in the footers
  std::vector<Row> rows_;
  std::vector<ColumnChunk> chunks_;
  std::vector<ColumnLayout> layouts_;
  std::unordered_map<std::string, uint32_t> layout_numbers_;
};

// Throws UnsupportedFormatError for values without a known encoding.
ColumnType column_type(Type type);

}  // namespace atompack::array_file
