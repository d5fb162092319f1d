// Outputs of a batch: made with it, in its arena, or later from its tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "collate/arena/arena.h"
#include "collate/batch.h"
#include "model/molecule_source.h"
#include "plan/batch_plan.h"
#include "plan/request.h"

namespace atompack::collate {

// Makes the outputs of a filled batch at their places in its arena. Throws as write_outputs() does, with file and
// molecule.
void add_outputs(const MoleculeSource& source, std::span<const Output> outputs, const BatchPlan& plan, Batch& batch);

// Tensors of a batch that is not in an arena, or no longer.
struct BatchTensors {
  at::Tensor positions, atomic_numbers, ptr;
  std::optional<at::Tensor> cell, pbc, edge_index, edge_shift;
};

// A field of such a batch; without values if no molecule has it.
struct FieldTensor {
  Level level = Level::molecule;
  std::vector<int64_t> row_shape;
  std::optional<at::Tensor> values, mask;
};

// Makes outputs in an arena of their own; `fields` are those of each output, or nullopt. Throws as write_outputs()
// does, with the row of the molecule, and FieldError for tensors that do not belong together.
std::vector<at::Tensor> make_outputs(std::span<const Output> outputs, const BatchTensors& tensors,
                                     std::span<const std::optional<FieldTensor>> fields);

}  // namespace atompack::collate
