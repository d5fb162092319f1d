// torch's old save stream, as which every pickled tensor holds its storage.
#pragma once

#include <cstdint>
#include <vector>

#include "model/array.h"

namespace atompack::pickle {

inline constexpr int64_t kStreamProtocol = 1001;

// A storage of the elements of `array` alone, in C order. UnsupportedFormatError where torch has no such storage.
std::vector<std::byte> encode_storage(const Array& array);

}  // namespace atompack::pickle
