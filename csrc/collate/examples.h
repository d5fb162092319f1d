// Examples in, one batch out.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "collate/arena/arena.h"
#include "collate/batch.h"
#include "model/example_source.h"
#include "plan/examples/example_plan.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {

struct ExampleBatch {
  at::Tensor arena;
  ExampleNode root;
  std::vector<at::Tensor> tensors;  // by leaf, views of the arena
  std::vector<Batch> molecules;     // in the same arena
};

using CollatedExamples = std::variant<ExampleBatch, Examples>;

struct ExampleOptions {
  bool jagged = false;
  KeyLevels levels = {};  // as the caller knows them
  int max_threads = 0;    // 0: torch's number
};

// Makes batches of the examples of one source. Thread-safe.
class ExampleCollator {
 public:
  ExampleCollator(std::shared_ptr<const ExampleSource> source, ExampleOptions options);
  ExampleCollator(const ExampleCollator&) = delete;
  ExampleCollator& operator=(const ExampleCollator&) = delete;
  ~ExampleCollator();

  const ExampleSource& source() const { return *source_; }

  // `indices` in any order, repeats allowed, all in range. Where the examples are not alike, returns them as they are:
  // what to make of them is the caller's to decide. Throws what reading throws.
  // `alone`: on the calling thread, for threads that make a batch each.
  CollatedExamples collate(std::span<const int64_t> indices, ArenaKind kind, bool alone = false) const;

  // Which keys of molecules have rows for atoms, by a look at some examples of the whole source.
  const KeyLevels& levels() const;

 private:
  std::shared_ptr<const ExampleSource> source_;
  ExampleOptions options_;
  // Made on first use, without a lock, which a fork could inherit locked.
  mutable std::atomic<const KeyLevels*> levels_{nullptr};
  mutable AdaptiveParallelism pace_;
};

}  // namespace atompack::collate
