// Validation of a footer: bounds, tags, strings, and its version.
#pragma once

#include "base/bytes.h"

namespace atompack::array_file {

constexpr uint32_t kFooterVersion = 4;

// Returns the position of the root. Throws CorruptFileError; UnsupportedFormatError for other versions.
uint64_t check_footer(Bytes archive);

}  // namespace atompack::array_file
