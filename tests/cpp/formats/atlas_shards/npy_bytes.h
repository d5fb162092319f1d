// The bytes of .npy files of one dimension, good and bad.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "byte_string.h"

namespace atompack::test {

inline ByteString npy_with_header(std::string_view header) {
  ByteString file("\x93NUMPY");
  file.put(uint8_t{1}).put(uint8_t{0}).put(static_cast<uint16_t>(header.size()));
  return file.append(as_bytes(header));
}

inline ByteString npy_of(std::string_view type, uint64_t count) {
  return npy_with_header(cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", count, ",), }  \n"));
}

inline std::vector<std::byte> owned(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace atompack::test
