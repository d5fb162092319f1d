// A finished batch, as the binding hands it to Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plan/molecules/batch_plan.h"

namespace atompack::collate {

using Strings = std::vector<std::optional<std::string>>;
using TensorList = std::vector<std::optional<at::Tensor>>;

// A field of one molecule that is damaged, and what is wrong with it; only where faults are tolerated.
struct Fault {
  int32_t field;
  std::string message;
};

struct Batch {
  at::Tensor arena;
  at::Tensor positions, atomic_numbers, batch, ptr, n_atoms, index;
  std::vector<at::Tensor> edges;  // index (2, edges), shift (edges, 3), vector (edges, 3): what was asked for
  at::Tensor masks;               // (fields, molecules) bool
  std::shared_ptr<const FieldTable> table;
  std::vector<std::variant<at::Tensor, TensorList, Strings>> values;  // as in the table
  std::vector<Fault> faults;
};

}  // namespace atompack::collate
