#include "formats/torch_cache/rows/vlen_column.h"

#include <algorithm>

namespace atompack::torch_cache {
namespace {

constexpr uint64_t kFound = uint64_t{1} << 63;

}  // namespace

VlenColumn::VlenColumn(std::string name, DType dtype, Bytes references)
    : name_(std::move(name)), dtype_(dtype), places_(references.size() / kReferenceBytes) {
  const std::byte* from = references.data();
  for (Place& place : places_) {
    place.length = load_le<uint32_t>(from);
    // Keeps the highest bit clear, which marks rows that were found; no valid address is that large.
    place.at.store(std::min(load_le<uint64_t>(from + 4), kFound - 1), std::memory_order_relaxed);
    place.number = load_le<uint32_t>(from + 12);
    total_bytes_ += place.length * uint64_t{item_bytes(dtype_)};
    from += kReferenceBytes;
  }
}

Bytes VlenColumn::row(const GlobalHeap& heap, int64_t row) const {
  const Place& found = place(row);
  if (found.length == 0) return {};
  const uint64_t bytes = row_bytes(row);
  const uint64_t at = found.at.load(std::memory_order_relaxed);
  if ((at & kFound) != 0) return heap.row(at & ~kFound, bytes);
  try {
    const uint64_t offset = heap.find(at, found.number, bytes);
    found.at.store(offset | kFound, std::memory_order_relaxed);
    return heap.row(offset, bytes);
  } catch (DataError& error) {
    error.at_field(name_);
    throw;
  }
}

void VlenColumn::prefetch(const GlobalHeap& heap, int64_t row) const {
  const uint64_t at = place(row).at.load(std::memory_order_relaxed);
  if ((at & kFound) == 0) return;
  heap.prefetch(at & ~kFound, row_bytes(row));
}

}  // namespace atompack::torch_cache
