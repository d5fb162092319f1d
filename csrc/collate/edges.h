// Search for the neighbor lists of a batch. It precedes the layout of the arena, which needs the number of edges.
#pragma once

#include <cstddef>

#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"
#include "plan/batch_plan.h"

namespace atompack::collate {

struct StagedRecords;

// Finds the edges and triplets of all molecules. Throws FieldError with the molecule if the search fails.
plan::Edges find_edges(const MoleculeSource& source, const physics::NeighborOptions& options,
                       const plan::BatchPlan& plan, const StagedRecords& staged);

// Writes the edges and triplets of the plan to their offsets in the arena.
void write_edges(const plan::BatchPlan& plan, std::byte* arena);

}  // namespace atompack::collate
