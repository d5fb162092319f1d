// The global heap of an HDF5 file, where the rows of variable length lie; FORMAT.md#global-heap.
#pragma once

#include "base/bytes.h"
#include "io/piece_reader.h"

namespace atompack::torch_cache {

// A view of the mapped file, or of pieces of it that are read by pread; every number in it is checked when it is used.
// Thread-safe.
class GlobalHeap {
 public:
  // Addresses in references count from `base`, which is not 0 where something stands before the HDF5 file.
  // With `pieces` of the same file, which outlive it, the mapping gives nothing but its length.
  GlobalHeap(Bytes file, uint64_t base, const io::PieceReader* pieces = nullptr)
      : file_(file), base_(base), pieces_(pieces) {}

  // Where in the file the payload of an object begins. Throws CorruptFileError unless there is one of `length` bytes;
  // offsets in errors count from the start of the file.
  uint64_t find(uint64_t collection, uint32_t number, uint64_t length) const;

  // Bytes inside of the file. What was read for it stays in memory until this thread calls forget_rows().
  Bytes row(uint64_t offset, uint64_t n) const;
  static void forget_rows();

  // Starts fetching bytes into the processor's cache. Only a hint.
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
  const io::PieceReader* pieces_;
};

}  // namespace atompack::torch_cache
