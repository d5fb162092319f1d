// Global heap collections for writing: FORMAT.md#global-heap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack::torch_cache {

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

}  // namespace atompack::torch_cache
