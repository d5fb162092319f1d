// The front of a .npy file of integers in one dimension (FORMAT.md#indexnpy).
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::atlas_shards {

struct NpyHeader {
  uint64_t data_begin = 0;
  uint64_t count = 0;
  uint8_t item_bytes = 0;  // 1, 2, 4, 8
  bool is_signed = false;
  bool big_endian = false;
};

// Throws CorruptFileError for what is no such header, UnsupportedFormatError for other versions of npy.
NpyHeader parse_npy_header(Bytes file);

}  // namespace atompack::atlas_shards
