// Neighbor lists of a batch, searched for or stored. They come before the layout of the arena, which needs the number
// of edges.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "model/molecule_source.h"
#include "physics/neighbors/neighbors.h"
#include "plan/batch_plan.h"

namespace atompack::collate {

struct StagedRecords;

// Finds the edges and triplets of all molecules. Throws FieldError with the molecule if the search fails.
plan::Edges find_edges(const MoleculeSource& source, const physics::NeighborOptions& options,
                       const plan::BatchPlan& plan, const StagedRecords& staged);

// Edges that were found once and are copied into every batch.

// edge_ptr (molecules + 1,) int64, index (2, edges) int32, shift (edges, 3) int8 or float32, vector (edges, 3) float32
// or float64, triplet_ptr (molecules + 1,) int64, triplet_edges (2, triplets) int32; numbers count within each
// molecule.
struct EdgeTensors {
  at::Tensor edge_ptr, index, shift;
  std::optional<at::Tensor> vector, triplet_ptr, triplet_edges;
};

// Keeps the tensors alive. Throws FieldError for tensors that do not belong together.
std::shared_ptr<const plan::PrecomputedEdges> keep_edges(const physics::NeighborOptions& options,
                                                         const EdgeTensors& tensors);

// Adds the copy of the edges to the work of each molecule of the plan.
void add_edge_work(const plan::PrecomputedEdges& kept, plan::BatchPlan& plan);

// Returns the edges of the plan's molecules, for a batch with these options.
plan::Edges take_edges(const plan::PrecomputedEdges& kept, const physics::NeighborOptions& options,
                       const plan::BatchPlan& plan);

// Writes the edges and triplets of the plan to their offsets in the arena.
void write_edges(const plan::BatchPlan& plan, std::byte* arena);

}  // namespace atompack::collate
