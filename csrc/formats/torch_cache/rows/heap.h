// Global heap of an HDF5 file, which holds the rows of variable length; FORMAT.md#global-heap.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "io/byte_source.h"

namespace atompack::torch_cache {

// Every number in the file is checked on use. Thread-safe.
class GlobalHeap {
 public:
  // `file` must outlive it. Addresses in references count from `base`, which is nonzero if something precedes the HDF5
  // data.
  GlobalHeap(const io::ByteSource& file, uint64_t base) : file_(&file), base_(base) {}

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

  const io::ByteSource* file_;
  uint64_t base_;
};

// Global heap collections for writing: FORMAT.md#global-heap.

// Values that become one row of a VLEN dataset, converted on the way.
struct Payload {
  const std::byte* values = nullptr;  // unaligned
  size_t count = 0;
  DType in = DType::float64, out = DType::float64;  // equal, or float64 and float32 in either direction
  int64_t subtract = 0;  // subtracted from int64 values, to convert batch atom indices to molecule atom indices

  size_t bytes() const { return count * item_bytes(out); }
};

// Appends one collection of these objects, numbered from 1 in this order; empty ones are omitted, and their numbers
// stay unused.
void append_collection(std::span<const Payload> payloads, std::vector<std::byte>& to);

// One dataset of rows of variable length: the element type, and the location of each row.

// Rows are located in the heap on first use. Thread-safe: the result is the same for every thread.
class VlenColumn {
 public:
  static constexpr size_t kReferenceBytes = 16;

  VlenColumn() = default;
  // `references` as stored in the dataset, FORMAT.md#references; `name` is used in errors.
  VlenColumn(std::string name, DType dtype, Bytes references);

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t n_rows() const { return std::ssize(places_); }
  // Number of elements.
  uint64_t length(int64_t row) const { return place(row).length; }
  uint64_t row_bytes(int64_t row) const { return place(row).length * uint64_t{item_bytes(dtype_)}; }
  // Total size of all rows. Each row is stored separately, so the file is at least as long.
  uint64_t total_bytes() const { return total_bytes_; }

  // Returns a view of heap bytes, unaligned; `heap` is the one of the same file each time. Throws CorruptFileError,
  // which names the column.
  Bytes row(const GlobalHeap& heap, int64_t row) const;

  // Hint: starts fetching the beginning of a row that was located before into the CPU cache.
  void prefetch(const GlobalHeap& heap, int64_t row) const;

 private:
  struct Place {
    // The address of a collection until the row was located, then the row's own offset with the highest bit set.
    mutable std::atomic<uint64_t> at;
    uint32_t number;
    uint32_t length;
  };
  const Place& place(int64_t row) const { return places_[static_cast<size_t>(row)]; }

  std::string name_;
  DType dtype_ = DType::uint8;
  std::vector<Place> places_;
  uint64_t total_bytes_ = 0;
};

}  // namespace atompack::torch_cache
