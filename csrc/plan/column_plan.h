// Plan of one column of a batch: its type, its shape, and the offset of each row in the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/column_source.h"
#include "plan/arena_layout.h"

namespace atompack::plan {

// stacked: (rows, *shape), all of the same shape; jagged: concatenated along the first axis; list: one tensor per row.
enum class Layout : uint8_t { stacked, jagged, list };

constexpr Names<3> names_of(Layout) { return {"layout", {"stacked", "jagged", "list"}}; }

struct RowPlan {
  uint64_t n_elements = 0;
  size_t offset = 0;                                // in the arena
  DType stored = DType::uint8, out = DType::uint8;  // in the file and in the batch
};

struct ColumnPlan {
  std::unique_ptr<const ColumnSlice> slice;
  std::string name;                  // for errors
  ColumnType type;                   // of the output
  std::vector<int64_t> sizes;        // of the values, stacked or jagged
  std::vector<int64_t> row_offsets;  // (rows + 1,) first elements along the jagged axis
  std::vector<RowPlan> rows;
  uint64_t row_elements = 0;                 // number of values in a stacked row, or in one step along the jagged axis
  size_t values = 0, offsets = 0, mask = 0;  // in the arena

  size_t n_rows() const { return rows.size(); }
  bool is_numeric() const { return type.kind == ColumnKind::numeric; }
};

// Plans a column and reserves its space in `arena`. `dtype`: target dtype of numbers; nullopt: the stored one.
// `type_if_absent`: type of a column in which no row has a value. Throws FieldError if rows differ in shape or type and
// the layout does not allow that, or if numbers cannot be cast without loss of range.
ColumnPlan plan_column(std::unique_ptr<const ColumnSlice> slice, std::string name, const ColumnType& type_if_absent,
                       Layout layout, std::optional<DType> dtype, ArenaLayout& arena);

}  // namespace atompack::plan
