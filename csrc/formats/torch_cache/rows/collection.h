// Global heap collections as a writer makes them: FORMAT.md#payloads.
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
  DType in = DType::float64, out = DType::float64;  // the same, or float64 and float32 either way
  int64_t subtract = 0;  // of int64: from each, which makes atoms of a batch those of a molecule

  size_t bytes() const { return count * item_bytes(out); }
};

// Appends one collection of these objects, numbered from 1 in this order; those of no bytes are left out, and keep
// their numbers free.
void append_collection(std::span<const Payload> payloads, std::vector<std::byte>& to);

}  // namespace atompack::torch_cache
