// Batchers: indices in, one batch out, whatever the kind of source.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "collate/arena/arena.h"
#include "collate/batch.h"

namespace atompack::collate {

using AnyBatch = std::variant<Batch, ColumnBatch, ExampleBatch, UnlikeExamples>;

// automatic: as many threads as the work is worth; serial: the calling thread alone, for threads that make a batch
// each.
enum class Parallelism : uint8_t { automatic, serial };

// Makes batches of one source in one way. Thread-safe.
class Batcher {
 public:
  virtual ~Batcher() = default;

  // The number of items in the source.
  virtual int64_t size() const = 0;

  // What errors call an item: "molecule", "dataset", "example".
  virtual std::string_view item() const = 0;

  // `indices` in any order, repeats allowed, all in range. Throws CorruptFileError, FieldError, IoError.
  virtual AnyBatch make(std::vector<int64_t> indices, ArenaKind kind, Parallelism parallelism) const = 0;
};

}  // namespace atompack::collate
