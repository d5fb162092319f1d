// Pages: the units in which caches keep the bytes of remote objects.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace atompack::io::fetch {

inline constexpr size_t kPageBytes = 4096;

constexpr uint64_t count_pages(uint64_t object_bytes) {
  return object_bytes / kPageBytes + (object_bytes % kPageBytes != 0 ? 1 : 0);
}

// The last page of an object may be shorter than the others. Requires page < count_pages(object_bytes).
constexpr size_t bytes_of_page(uint64_t object_bytes, uint64_t page) {
  return static_cast<size_t>(std::min<uint64_t>(kPageBytes, object_bytes - page * kPageBytes));
}

}  // namespace atompack::io::fetch
