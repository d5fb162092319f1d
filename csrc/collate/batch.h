// Batches of molecules, columns and examples, from which the bindings make Python objects.
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
#include "plan/batch_plan.h"
#include "plan/example_plan.h"

namespace atompack::collate {

using Strings = std::vector<std::optional<std::string>>;
using TensorList = std::vector<std::optional<at::Tensor>>;

// Damaged field of a molecule and its error; only in batches that tolerate faults.
struct Fault {
  int32_t field;
  std::string message;
};

struct Batch {
  at::Tensor arena;
  at::Tensor positions, atomic_numbers, batch, ptr, n_atoms, index;
  // Index (2, edges), shift (edges, 3), vector (edges, 3), atoms (3, triplets), edges (2, triplets), as requested.
  std::vector<at::Tensor> edges;
  std::vector<at::Tensor> outputs;  // in the order of the request
  at::Tensor masks;                 // (fields, molecules) bool
  std::shared_ptr<const plan::FieldTable> table;
  std::vector<std::variant<at::Tensor, TensorList, Strings>> values;  // in the order of the table
  std::vector<Fault> faults;
};

using StringRow = std::vector<std::string>;

// One column of a batch.
struct ScannedColumn {
  ColumnKind kind = ColumnKind::numeric;
  at::Tensor values;                              // layouts stacked and jagged
  TensorList list;                                // layout list
  std::vector<std::optional<StringRow>> strings;  // of string and binary columns, row-major
  std::vector<std::vector<int64_t>> shapes;       // of the rows of string and binary columns
  at::Tensor offsets;                             // (rows + 1,) int64, layout jagged
  at::Tensor mask;                                // (rows,) bool: true for rows with a value
};

struct ColumnBatch {
  at::Tensor arena;
  std::vector<ScannedColumn> columns;
  std::vector<int64_t> datasets;  // number of the dataset of each row
  std::shared_ptr<const ColumnSource> source;
};

struct ExampleBatch {
  at::Tensor arena;
  plan::ExampleNode root;
  std::vector<at::Tensor> tensors;  // one per leaf, views of the arena
  std::vector<Batch> molecules;     // views of the same arena
};

// Examples that differ too much to share a batch, and their indices.
struct IncompatibleExamples {
  Examples examples;
  std::vector<int64_t> numbers;
};

}  // namespace atompack::collate
