// Validation of a footer: bounds, tags, strings, and its version.
#pragma once

#include "base/bytes.h"

namespace atompack::array_file {

constexpr uint32_t kFooterVersion = 4;

// Returns where the root begins. Throws CorruptFileError; UnsupportedFormatError if it is of another version.
uint64_t check_footer(Bytes archive);

}  // namespace atompack::array_file
