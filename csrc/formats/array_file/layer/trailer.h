// Trailer of a file: the length of the preceding archive, and a magic number.
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace atompack::array_file {

inline constexpr std::string_view kLayerMagic = "ARRF", kStatisticsMagic = "ARST";
inline constexpr uint64_t kTrailerBytes = 12;

struct Parts {
  Bytes blocks, archive;
};

// Returns the size of the footer, given the trailer of a file of `file_bytes`. Throws CorruptFileError unless the
// trailer is complete and ends in `magic`, and the footer is inside the file.
uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic = kLayerMagic);

// Splits a file at its footer. Throws CorruptFileError unless it ends in `magic`.
Parts split_file(Bytes file, std::string_view magic);

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic);

}  // namespace atompack::array_file
