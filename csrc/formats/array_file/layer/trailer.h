// The last bytes of a file: how long the archive in front of them is, and which kind of file this is.
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

// Size of the footer by the trailer, the last bytes of a file of `file_bytes`. Throws CorruptFileError unless it is
// whole and ends in kLayerMagic, and the footer lies in the file.
uint64_t footer_bytes(Bytes trailer, uint64_t file_bytes, std::string_view magic = kLayerMagic);

// What lies in front of the trailer. Throws CorruptFileError unless the file ends in `magic`.
Parts split_file(Bytes file, std::string_view magic);

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic);

}  // namespace atompack::array_file
