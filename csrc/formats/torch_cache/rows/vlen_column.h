// One dataset of rows of variable length: the element type, and the location of each row.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/rows/heap.h"

namespace atompack::torch_cache {

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
