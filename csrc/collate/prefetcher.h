// Whole batches made ahead of their use, on threads of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "collate/collator.h"

namespace atompack::collate {

// Batches come out in the order in which they were asked for, however long each takes. What was asked for and not
// taken yet is what memory holds: the caller sets the bound. For one caller at a time. Its threads do not survive
// a fork: in the child every call throws, and destroying it leaves the parent's alone.
class Prefetcher {
 public:
  // Each thread makes whole batches by itself. Threads start with the first batch that is asked for.
  Prefetcher(std::shared_ptr<const Collator> collator, ArenaKind kind, int n_threads);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  // Waits for the batches that are being made; those that were not begun are dropped.
  ~Prefetcher();

  // Never waits.
  void ask(std::vector<int64_t> indices);
  // How many were asked for and not taken.
  size_t n_outstanding() const;

  // The oldest; nothing if it is not there in this time. Throws what stopped it from being made: then that one counts
  // as taken. InternalError if none was asked for.
  std::optional<Batch> take(std::chrono::milliseconds patience);

 private:
  struct Task;
  struct Shared;
  static void work(Shared& shared);
  Shared& shared() const;

  std::unique_ptr<Shared> shared_;
  int64_t owner_;  // the process
};

}  // namespace atompack::collate
