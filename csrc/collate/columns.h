// Columns of many data sets as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collate/arena/arena.h"
#include "model/column_source.h"

namespace atompack::collate {

// stacked: (rows, *shape), all of one shape; jagged: concatenated along their first axis; list: one tensor a row.
enum class Layout : uint8_t { stacked, jagged, list };

struct ScanOptions {
  Layout layout = Layout::stacked;
  std::optional<DType> dtype;  // what numbers are cast to
  int max_threads = 0;         // 0: torch's number
};

// One column that was asked for, and what it is called in errors.
struct ColumnPart {
  const ColumnSlice* slice = nullptr;
  std::string name;
  ColumnType type;  // where no row has any
};

using TextRow = std::vector<std::string>;

struct ScannedColumn {
  ColumnKind kind = ColumnKind::numeric;
  at::Tensor values;                            // stacked, jagged
  std::vector<std::optional<at::Tensor>> list;  // layout list
  std::vector<std::optional<TextRow>> texts;    // where values are texts: row-major
  std::vector<std::vector<int64_t>> shapes;     // of the rows, where values are texts
  at::Tensor offsets;                           // (rows + 1,) int64, jagged
  at::Tensor mask;                              // (rows,) bool: which rows are there
};

struct Scan {
  at::Tensor arena;
  std::vector<ScannedColumn> columns;
};

// All columns in one arena. Throws FieldError where rows differ in shape or type and the layout does not allow that,
// or values cannot be cast without loss of range; what the slices throw.
Scan scan(std::span<const ColumnPart> parts, const ScanOptions& options, ArenaKind kind);

}  // namespace atompack::collate
