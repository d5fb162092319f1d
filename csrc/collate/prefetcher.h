// Whole batches made ahead of their use, each by one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "threads/ordered_pipeline.h"

namespace atompack::collate {

template <typename Batch>
struct BatchTask {
  std::vector<int64_t> indices;
  Batch batch{};
};

// The caller bounds the number of batches that are not taken yet; push() never blocks.
template <typename Batch>
using Prefetcher = OrderedPipeline<BatchTask<Batch>>;

}  // namespace atompack::collate
