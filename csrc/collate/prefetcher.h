// Prefetcher: batches made ahead of their use, each by one thread.
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

// Batches come in the order in which they were asked for. The caller bounds their number; ask() never blocks.
class Prefetcher {
 public:
  Prefetcher(std::shared_ptr<const Batcher> batcher, unsigned n_threads, ArenaKind kind)
      : batcher_(std::move(batcher)), pipeline_(n_threads, [batcher = batcher_.get(), kind](Task& task) {
          task.batch = batcher->make(std::move(task.indices), kind, Parallelism::serial);
        }) {}

  const Batcher& batcher() const { return *batcher_; }

  void ask(std::vector<int64_t> indices) { pipeline_.push({std::move(indices), {}}); }

  // The oldest batch; nothing if it takes longer than `patience`. Throws what stopped it from being made.
  std::optional<AnyBatch> take(std::chrono::milliseconds patience) {
    std::optional<Task> task = pipeline_.take(patience);
    if (!task) return std::nullopt;
    return std::move(task->batch);
  }

  // The number of batches that were asked for and not taken.
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
