// Reading everything of an array, to find damage.
#pragma once

#include <string_view>

#include "array_format/reader.h"

namespace atompack::array_format {

// Decodes every chunk of an array and checks it, in memory that does not grow with the array. Throws FieldError where
// there is no such array, CorruptFileError and UnsupportedFormatError for what a read of it would find.
void verify_array(const Reader& reader, std::string_view name, DecodedBlock& last);

}  // namespace atompack::array_format
