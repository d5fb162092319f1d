// Plan of the molecules among the values of examples: one batch in the arena of the whole batch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/sources/value_molecules.h"
#include "plan/arena_layout.h"
#include "plan/molecules/batch_plan.h"
#include "plan/molecules/field_set.h"

namespace atompack::collate {

struct MoleculesPlan {
  std::unique_ptr<const ValueMolecules> source;
  std::unique_ptr<const FieldSet> fields;
  BatchPlan batch;               // indices refer to `source`
  std::vector<int64_t> numbers;  // indices of the examples in the data set
};

// Plans a batch of one dict per example. Returns nullopt if the dicts are not molecules, hold values that no field can,
// or have types that do not mix.
std::optional<MoleculesPlan> plan_molecules(std::span<const Value> dicts, std::span<const int64_t> numbers,
                                            const KeyLevels& levels, ArenaLayout& arena);

}  // namespace atompack::collate
