// The last bytes of a file: how long the archive in front of them is, and which kind of file this is.
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace atompack::array_format {

inline constexpr std::string_view kLayerMagic = "ARRF", kStatisticsMagic = "ARST";
inline constexpr uint64_t kTrailerBytes = 12;

struct Parts {
  Bytes blocks, archive;
};

// What lies in front of the trailer. Throws CorruptFileError unless the file ends in `magic`.
Parts split_file(Bytes file, std::string_view magic);

std::vector<std::byte> with_trailer(std::vector<std::byte> archive, std::string_view magic);

}  // namespace atompack::array_format
