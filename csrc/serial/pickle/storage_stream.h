// torch's legacy save stream, which holds the storage of every pickled tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "model/value.h"

namespace atompack::pickle {

inline constexpr int64_t kStreamProtocol = 1001;

// Encodes the elements of `array` in C order as one storage. UnsupportedFormatError if torch has no such storage.
std::vector<std::byte> encode_storage(const Array& array);

}  // namespace atompack::pickle
