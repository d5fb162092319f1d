// Global heap of an HDF5 file, which holds the rows of variable length; FORMAT.md#global-heap.
#pragma once

#include "base/bytes.h"
#include "io/range_reader.h"

namespace atompack::torch_cache {

// View of the mapped file, or of parts of it read by pread; every number in it is checked on use. Thread-safe.
class GlobalHeap {
 public:
  // Addresses in references count from `base`, which is nonzero if something precedes the HDF5 data. With `ranges` of
  // the same file, which must outlive it, only the length of the mapping is used.
  GlobalHeap(Bytes file, uint64_t base, const io::RangeReader* ranges = nullptr)
      : file_(file), base_(base), ranges_(ranges) {}

  // Returns the offset of an object's payload in the file. Throws CorruptFileError unless the object has `length`
  // bytes; offsets in errors count from the start of the file.
  uint64_t find(uint64_t collection, uint32_t number, uint64_t length) const;

  // Returns bytes inside the file. Memory used for reading them is kept until this thread calls forget_rows().
  Bytes row(uint64_t offset, uint64_t n) const;
  static void forget_rows();

  // Hint: starts fetching bytes into the CPU cache.
  void prefetch(uint64_t offset, uint64_t n) const;

 private:
  struct Extent {
    uint64_t first, end;
  };
  Extent collection_at(uint64_t address) const;
  // Valid until the next call of this thread.
  const std::byte* header_at(uint64_t at) const;

  Bytes file_;
  uint64_t base_;
  const io::RangeReader* ranges_;
};

}  // namespace atompack::torch_cache
