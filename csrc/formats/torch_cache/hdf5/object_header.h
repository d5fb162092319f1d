// Checks of HDF5 object headers that are needed before libhdf5 reads them; FORMAT.md#object-headers.
#pragma once

#include "base/bytes.h"

namespace atompack::torch_cache {

// Throws CorruptFileError or UnsupportedFormatError if the header at `at` is damaged, or unless a dataset's chunks have
// one nonzero dimension: libhdf5 1.10 divides by it unchecked, which ends the process. Addresses in the header count
// from `base`.
void check_object_header(Bytes file, uint64_t base, uint64_t at);

}  // namespace atompack::torch_cache
