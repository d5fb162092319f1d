// Molecules among the values of examples: one batch of them, in the arena of the whole batch.
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
  BatchPlan batch;               // its indices are those of the source
  std::vector<int64_t> numbers;  // of the examples in the data set
};

// The plan of one dict for each example. Nothing where the dicts are no molecules, hold what no field can, or have
// types that do not mix.
std::optional<MoleculesPlan> plan_molecules(std::span<const Value> dicts, std::span<const int64_t> numbers,
                                            const KeyLevels& levels, ArenaLayout& arena);

}  // namespace atompack::collate
