// Prefetcher, which makes batches ahead of their use, each on one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collate/batcher.h"
#include "threads/ordered_pipeline.h"

namespace atompack::collate {

// Returns batches in the order in which they were requested. At most `max_ready` batches are made and not taken; the
// items of requests beyond them are announced, so that their bytes are fetched in the meantime.
class Prefetcher {
 public:
  Prefetcher(std::shared_ptr<const Batcher> batcher, unsigned n_threads, size_t max_ready, ArenaKind kind)
      : batcher_(std::move(batcher)),
        max_ready_(max_ready),
        batches_(
            n_threads, [this, kind](Task& task) { make(task, kind); }, max_ready),
        announcements_(1, [this](Announcement& next) { announce(next); }, [](Announcement&) {}) {}

  const Batcher& batcher() const { return *batcher_; }

  // Requests a batch, without waiting. Returns true if more should be requested before the next batch is taken. For one
  // thread at a time.
  bool submit(std::vector<int64_t> indices) {
    sizes_.push_back(indices.size());
    n_items_ += indices.size();
    const uint64_t number = n_submitted_++;
    // While it is not known whether reading ahead helps, making the batch finds that out.
    if (batcher_->window() > 1) announcements_.push({number, indices});
    batches_.push({number, std::move(indices), {}});
    const size_t n_batches = batches_.size();
    for (; sizes_.size() > n_batches; sizes_.pop_front()) n_items_ -= sizes_.front();
    return n_batches < max_ready_ || n_items_ < static_cast<size_t>(batcher_->window());
  }

  // Removes and returns the oldest batch; returns nullopt if it is not ready within `patience`. Throws the error that
  // occurred while making it.
  std::optional<AnyBatch> take(std::chrono::milliseconds patience) {
    std::optional<Task> task = batches_.take(patience);
    if (!task) return std::nullopt;
    return std::move(task->batch);
  }

  // Returns the number of batches that were requested and not taken.
  size_t size() const { return batches_.size(); }

 private:
  struct Task {
    uint64_t number = 0;
    std::vector<int64_t> indices;
    AnyBatch batch;
  };
  struct Announcement {
    uint64_t number = 0;
    std::vector<int64_t> indices;
  };

  void make(Task& task, ArenaKind kind) const {
    const bool is_announced = task.number < n_announced_.load(std::memory_order_relaxed);
    task.batch = is_announced ? batcher_->make_announced(std::move(task.indices), kind, Parallelism::serial)
                              : batcher_->make(std::move(task.indices), kind, Parallelism::serial);
  }

  void announce(const Announcement& next) {
    try {
      batcher_->announce(next.indices);
    } catch (const std::exception&) {
      return;  // making the batch announces it again, and reports the error
    }
    n_announced_.store(next.number + 1, std::memory_order_relaxed);
  }

  std::shared_ptr<const Batcher> batcher_;
  size_t max_ready_;
  uint64_t n_submitted_ = 0;
  std::atomic<uint64_t> n_announced_{0};    // number of the last request that was announced, plus one
  std::deque<size_t> sizes_;                // of the requests, and some that were taken
  size_t n_items_ = 0;                      // their sum
  threads::OrderedPipeline<Task> batches_;  // last members: their threads use the others
  threads::OrderedPipeline<Announcement> announcements_;
};

}  // namespace atompack::collate
