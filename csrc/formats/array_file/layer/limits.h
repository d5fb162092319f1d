// Limits on memory that stored bytes do not justify.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

inline constexpr uint64_t kMaxMetadataBytes = uint64_t{256} << 20;

// Size of one element in memory, for the shortest string or binary value.
inline uint64_t element_memory(Type type) {
  const uint64_t item = item_bytes(type);
  return item > 0 ? item : sizeof(std::string) + sizeof(void*);
}

// Memory of `n` elements, saturated on overflow.
inline uint64_t memory_of(uint64_t n, Type type) {
  constexpr uint64_t kFarTooMany = uint64_t{1} << 50;
  return std::min(kFarTooMany, std::min(kFarTooMany, n) * element_memory(type));
}

// `chosen`: the user's own limit. By default, sparse arrays may take 64 times the size of their files.
inline uint64_t max_unstored_bytes(uint64_t file_bytes, std::optional<uint64_t> chosen) {
  constexpr uint64_t kAlways = uint64_t{256} << 20, kFactor = 64;
  return chosen.value_or(std::max(kAlways, std::min(file_bytes, UINT64_MAX / kFactor) * kFactor));
}

[[noreturn]] inline void refuse_unstored(uint64_t bytes, uint64_t limit) {
  throw FieldError(cat("unwritten cells: expected at most ", limit, " bytes of memory for them, got ", bytes,
                       ": read a part (start=, shape=), or raise max_unstored_bytes="));
}

}  // namespace atompack::array_file
