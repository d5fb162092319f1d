// torch's old save stream, as which every pickled tensor holds its storage.
#pragma once

#include <vector>

#include "base/array.h"

namespace atompack::pickle {

// A storage of the elements of `array` alone, in C order. UnsupportedFormatError where torch has no such storage.
std::vector<std::byte> encode_storage(const Array& array);

}  // namespace atompack::pickle
