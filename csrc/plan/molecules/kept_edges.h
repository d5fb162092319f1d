// Neighbor lists of all molecules of a source, found once and kept in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/dtype.h"
#include "physics/neighbors/neighbors.h"

namespace atompack::collate {

// Edges are in the order of the molecules; atoms and edges are numbered within each molecule.
struct KeptEdges {
  physics::NeighborOptions options;
  DType floating = DType::float32;          // of vectors
  DType shift = DType::int8;                // int8 or float32
  std::span<const int64_t> edge_ptr;        // (molecules + 1,)
  std::span<const int64_t> triplet_ptr;     // (molecules + 1,)
  std::span<const int32_t> i, j;            // (edges,)
  Bytes shifts;                             // (edges, 3)
  Bytes vectors;                            // (edges, 3); empty without vectors
  std::span<const int32_t> edge_j, edge_k;  // (triplets,)
  std::shared_ptr<const void> owner;        // of the memory

  // True if a batch with these options, whose positions are of this type, has the same edges.
  bool serve(const physics::NeighborOptions& wanted, DType positions) const {
    return wanted.cutoff == options.cutoff && wanted.full == options.full &&
           wanted.self_interaction == options.self_interaction && wanted.max_neighbors == options.max_neighbors &&
           (!wanted.triplet_cutoff || wanted.triplet_cutoff == options.triplet_cutoff) &&
           (!wanted.vectors || (options.vectors && (positions == floating || floating == DType::float64)));
  }
};

}  // namespace atompack::collate
