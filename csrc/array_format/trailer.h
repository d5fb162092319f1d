// The last bytes of a file: how long the archive in front of them is, and which kind of file this is.
#pragma once

#include <string_view>

#include "base/bytes.h"

namespace atompack::array_format {

struct Parts {
  Bytes blocks, archive;
};

// What lies in front of the trailer. Throws CorruptFileError unless the file ends in `magic`.
Parts split_file(Bytes file, std::string_view magic);

}  // namespace atompack::array_format
