// Batcher of examples of any form.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "collate/batcher.h"
#include "model/example_source.h"
#include "threads/adaptive_parallelism.h"

namespace atompack::collate {

struct ExampleOptions {
  bool jagged = false;
  KeyLevels levels = {};  // known to the caller; they replace inferred ones
  int max_threads = 0;    // 0: the number that torch uses
};

// Makes batches of examples of one source. Thread-safe.
class ExampleBatcher final : public Batcher {
 public:
  ExampleBatcher(std::shared_ptr<const ExampleSource> source, ExampleOptions options);
  ~ExampleBatcher() override;

  int64_t size() const override { return source_->size(); }
  std::string_view item() const override { return "example"; }

  int64_t window() const override { return source_->window(); }
  void announce(std::span<const int64_t> indices) const override { source_->announce(indices); }

  // Returns IncompatibleExamples if the examples differ too much to share a batch. Throws the errors of reading.
  AnyBatch make_announced(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const override;

  // For each key of molecules: true if its values have one row per atom. Inferred from a sample of the whole source.
  const KeyLevels& levels() const;

 private:
  std::shared_ptr<const ExampleSource> source_;
  ExampleOptions options_;
  // Made on first use, without a lock: a forked child could inherit it locked.
  mutable std::atomic<const KeyLevels*> levels_{nullptr};
  mutable threads::AdaptiveParallelism adaptive_;
};

}  // namespace atompack::collate
