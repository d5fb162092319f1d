// Prefetcher, which makes batches ahead of their use, each on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collate/batcher.h"
#include "threads/ordered_pipeline.h"

namespace atompack::collate {

// Returns batches in the order in which they were requested. The caller limits their number; submit() never blocks.
class Prefetcher {
 public:
  Prefetcher(std::shared_ptr<const Batcher> batcher, unsigned n_threads, ArenaKind kind)
      : batcher_(std::move(batcher)), pipeline_(n_threads, [batcher = batcher_.get(), kind](Task& task) {
          task.batch = batcher->make(std::move(task.indices), kind, Parallelism::serial);
        }) {}

  const Batcher& batcher() const { return *batcher_; }

  void submit(std::vector<int64_t> indices) { pipeline_.push({std::move(indices), {}}); }

  // Removes and returns the oldest batch; returns nullopt if it is not ready within `patience`. Throws the error that
  // occurred while making it.
  std::optional<AnyBatch> take(std::chrono::milliseconds patience) {
    std::optional<Task> task = pipeline_.take(patience);
    if (!task) return std::nullopt;
    return std::move(task->batch);
  }

  // Returns the number of batches that were requested and not taken.
  size_t size() const { return pipeline_.size(); }

 private:
  struct Task {
    std::vector<int64_t> indices;
    AnyBatch batch;
  };

  std::shared_ptr<const Batcher> batcher_;
  OrderedPipeline<Task> pipeline_;
};

}  // namespace atompack::collate
