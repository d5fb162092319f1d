// Whole batches made ahead of their use.
#pragma once

#include <memory>
#include <vector>

#include "collate/collator.h"
#include "threads/ordered_workers.h"

namespace atompack::collate {

using Prefetcher = OrderedWorkers<std::vector<int64_t>, Batch>;

// Each thread makes whole batches by itself.
inline std::unique_ptr<Prefetcher> make_prefetcher(std::shared_ptr<const Collator> collator, ArenaKind kind,
                                                   int n_threads) {
  const auto make = [collator = std::move(collator), kind](std::vector<int64_t> indices) {
    return collator->collate_serially(std::move(indices), kind);
  };
  return std::make_unique<Prefetcher>(make, n_threads);
}

}  // namespace atompack::collate
