// The neighbor lists of a batch: found before it is laid out, because nothing else tells how many edges there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/molecule_source.h"
#include "descriptor/neighbors.h"

namespace atompack::collate {

struct BatchPlan;
struct StagedRecords;

// Lists go back where they came from, with their memory: fresh memory costs more than the pairs that are written to it.
struct GiveBackPairs {
  void operator()(descriptor::PairList* pairs) const noexcept;
};
using PooledPairs = std::unique_ptr<descriptor::PairList, GiveBackPairs>;

struct Edges {
  // One for each range of molecules, which `borders` cut.
  std::vector<PooledPairs> parts;
  std::vector<int64_t> borders;
  bool has_vectors = false;
  size_t index = 0, shift = 0, vector = 0;  // places in the arena

  int64_t count() const;
};

// Throws FieldError, with the molecule, where the search does.
Edges find_edges(const MoleculeSource& source, const descriptor::NeighborOptions& options, const BatchPlan& plan,
                 const StagedRecords& staged);

// Writes those of the plan, which has given them their places.
void write_edges(const BatchPlan& plan, std::byte* arena);

}  // namespace atompack::collate
