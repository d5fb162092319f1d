// Interface of batchers, which make a batch from indices of a source of any kind.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "collate/arena.h"
#include "collate/batch.h"

namespace atompack::collate {

using AnyBatch = std::variant<Batch, ColumnBatch, ExampleBatch, IncompatibleExamples>;

// automatic: as many threads as the amount of work justifies; serial: only the calling thread, for threads that each
// make a batch.
enum class Parallelism : uint8_t { automatic, serial };

// Makes batches of one source with fixed options. Thread-safe.
class Batcher {
 public:
  virtual ~Batcher() = default;

  // Returns the number of items in the source.
  virtual int64_t size() const = 0;

  // Returns the name of an item in error messages: "molecule", "dataset" or "example".
  virtual std::string_view item() const = 0;

  // Reading ahead: the number of items to announce before their batch is made; 0 if all is in memory, 1 if that is not
  // known yet.
  virtual int64_t window() const { return 0; }
  // Starts fetching items of batches that will be made soon.
  virtual void announce(std::span<const int64_t>) const {}

  // Makes a batch. `indices` may have any order and repeats; all are in range. Throws CorruptFileError, FieldError,
  // IoError.
  virtual AnyBatch make(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const {
    if (window() > 0) announce(indices);
    return make_announced(std::move(indices), kind, parallelism);
  }
  // The same for items that were announced.
  virtual AnyBatch make_announced(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const = 0;
};

}  // namespace atompack::collate
