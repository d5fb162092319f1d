// The checksum of HDF5's metadata: FORMAT.md#checksums.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace atompack::torch_cache {

// Bob Jenkins' lookup3 with the start value 0.
uint32_t lookup3(Bytes bytes);

}  // namespace atompack::torch_cache
