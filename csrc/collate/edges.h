// The neighbor lists of a batch: found before it is laid out, because nothing else tells how many edges there are.
#pragma once

#include <cstddef>

#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"
#include "plan/molecules/batch_plan.h"

namespace atompack::collate {

struct StagedRecords;

// Throws FieldError, with the molecule, where the search does.
Edges find_edges(const MoleculeSource& source, const physics::NeighborOptions& options, const BatchPlan& plan,
                 const StagedRecords& staged);

// Writes those of the plan, which has given them their places.
void write_edges(const BatchPlan& plan, std::byte* arena);

}  // namespace atompack::collate
