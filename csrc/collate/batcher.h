// Interface of batchers, which make a batch from indices of a source of any kind.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "collate/arena/arena.h"
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

  // Makes a batch. `indices` may have any order and repeats; all are in range. Throws CorruptFileError, FieldError,
  // IoError.
  virtual AnyBatch make(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const = 0;
};

}  // namespace atompack::collate
