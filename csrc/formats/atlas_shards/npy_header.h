// Header of a one-dimensional .npy file of integers (FORMAT.md#indexnpy).
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace atompack::atlas_shards {

struct NpyHeader {
  uint64_t data_begin = 0;
  uint64_t count = 0;
  uint8_t item_bytes = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
  bool big_endian = false;
};

// Throws CorruptFileError for an invalid header, UnsupportedFormatError for other versions of npy.
NpyHeader parse_npy_header(Bytes file);

// Header of `count` unsigned integers of 1, 2, 4 or 8 bytes, little-endian.
std::vector<std::byte> encode_npy_header(uint64_t count, uint8_t item_bytes);

}  // namespace atompack::atlas_shards
