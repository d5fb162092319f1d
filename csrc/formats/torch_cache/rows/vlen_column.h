// One dataset of rows of variable length: which type its elements have, and where each row lies.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/rows/heap.h"

namespace atompack::torch_cache {

// Rows are found in the heap when they are first asked for. Thread-safe: what is found is the same for every thread.
class VlenColumn {
 public:
  static constexpr size_t kReferenceBytes = 16;

  VlenColumn() = default;
  // `references` as they lie in the dataset, FORMAT.md#references; `name` is what errors call the column.
  VlenColumn(std::string name, DType dtype, Bytes references);

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t n_rows() const { return std::ssize(places_); }
  // Number of elements.
  uint64_t length(int64_t row) const { return place(row).length; }
  uint64_t row_bytes(int64_t row) const { return place(row).length * uint64_t{item_bytes(dtype_)}; }
  // The file stores each row for itself, so it is at least as long as this.
  uint64_t total_bytes() const { return total_bytes_; }

  // A view of what the heap gives, unaligned; `heap` is that of the same file each time. Throws CorruptFileError, which
  // names the column.
  Bytes row(const GlobalHeap& heap, int64_t row) const;

  // Starts fetching the beginning of a row that was found before into the processor's cache. Only a hint.
  void prefetch(const GlobalHeap& heap, int64_t row) const;

 private:
  struct Place {
    // The address of a collection until the row was found, then the row's own offset with the highest bit set.
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
