// The header of an HDF5 object, as far as it must be sound before libhdf5 may see it; FORMAT.md#object-headers.
#pragma once

#include "base/bytes.h"

namespace atompack::torch_cache {

// Throws CorruptFileError or UnsupportedFormatError if the header at `at` is damaged, or if a data set's chunks have
// not one dimension that is not 0: libhdf5 1.10 divides by it unseen, which ends the process. Addresses in the header
// count from `base`.
void check_object_header(Bytes file, uint64_t base, uint64_t at);

}  // namespace atompack::torch_cache
