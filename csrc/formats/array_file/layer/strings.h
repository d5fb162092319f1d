// Chunks of strings and binary values.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::array_file {

// Throws CorruptFileError if a chunk of this size has no room for the offsets of `count` values.
void check_room_for_offsets(uint64_t count, uint64_t chunk_bytes);

// View of a chunk of `count` values: count + 1 offsets, then the bytes. Throws CorruptFileError.
class Strings {
 public:
  Strings(Bytes chunk, uint64_t count);

  Bytes at(uint64_t index) const { return payload_.subspan(offset(index), offset(index + 1) - offset(index)); }

 private:
  uint32_t offset(uint64_t index) const { return load_le<uint32_t>(offsets_.data() + 4 * index); }

  Bytes offsets_, payload_;
};

}  // namespace atompack::array_file
