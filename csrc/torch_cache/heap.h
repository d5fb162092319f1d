// The global heap of an HDF5 file, where the rows of variable length lie; FORMAT.md#global-heap.
#pragma once

#include "base/bytes.h"

namespace atompack::torch_cache {

// A view of the mapped file; every number in it is checked when it is used. Thread-safe.
class GlobalHeap {
 public:
  // Addresses in references count from `base`, which is not 0 where something stands before the HDF5 file.
  GlobalHeap(Bytes file, uint64_t base) : file_(file), base_(base) {}

  // Where in the file the payload of an object begins. Throws CorruptFileError unless there is one of `length` bytes;
  // offsets in errors count from the start of the file.
  uint64_t find(uint64_t collection, uint32_t number, uint64_t length) const;

  Bytes file() const { return file_; }

 private:
  struct Extent {
    uint64_t first, end;
  };
  Extent collection_at(uint64_t address) const;

  Bytes file_;
  uint64_t base_;
};

}  // namespace atompack::torch_cache
