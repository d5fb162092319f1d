// Functions that copy values into an arena and convert their types.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack::collate {

// Copies `count` values. `from` is unaligned and of type `in`; `to` is aligned for `out`.
void copy_values(std::byte* to, DType out, const std::byte* from, DType in, size_t count);

// Atoms of one molecule in the batch.
struct AtomRange {
  int64_t first, n;
};

// Converts atom indices of a molecule (int64 or int32) to int64 atom indices of the batch. Throws CorruptFileError for
// an index outside [0, atoms.n).
void copy_atom_indices(std::byte* to, const std::byte* from, DType in, size_t count, const AtomRange& atoms);

}  // namespace atompack::collate
