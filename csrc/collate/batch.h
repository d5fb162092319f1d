// Finished batches of molecules, columns and examples, as the bindings hand them to Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/column_source.h"
#include "model/example_source.h"
#include "plan/examples/example_plan.h"
#include "plan/molecules/batch_plan.h"

namespace atompack::collate {

using Strings = std::vector<std::optional<std::string>>;
using TensorList = std::vector<std::optional<at::Tensor>>;

// A damaged field of one molecule and its error; only where faults are tolerated.
struct Fault {
  int32_t field;
  std::string message;
};

struct Batch {
  at::Tensor arena;
  at::Tensor positions, atomic_numbers, batch, ptr, n_atoms, index;
  std::vector<at::Tensor> edges;  // index (2, edges), shift (edges, 3), vector (edges, 3): those that were asked for
  at::Tensor masks;               // (fields, molecules) bool
  std::shared_ptr<const FieldTable> table;
  std::vector<std::variant<at::Tensor, TensorList, Strings>> values;  // in the order of the table
  std::vector<Fault> faults;
};

using TextRow = std::vector<std::string>;

// One column in the rows of a batch.
struct ScannedColumn {
  ColumnKind kind = ColumnKind::numeric;
  at::Tensor values;                          // layouts stacked and jagged
  TensorList list;                            // layout list
  std::vector<std::optional<TextRow>> texts;  // of string and binary columns: row-major
  std::vector<std::vector<int64_t>> shapes;   // of the rows of string and binary columns
  at::Tensor offsets;                         // (rows + 1,) int64, layout jagged
  at::Tensor mask;                            // (rows,) bool: True for rows that are present
};

struct ColumnBatch {
  at::Tensor arena;
  std::vector<ScannedColumn> columns;
  std::vector<int64_t> datasets;  // of the rows, by number
  std::shared_ptr<const ColumnSource> source;
};

struct ExampleBatch {
  at::Tensor arena;
  ExampleNode root;
  std::vector<at::Tensor> tensors;  // by leaf, views of the arena
  std::vector<Batch> molecules;     // in the same arena
};

// Examples that differ too much to share a batch, and their numbers.
struct UnlikeExamples {
  Examples examples;
  std::vector<int64_t> numbers;
};

}  // namespace atompack::collate
