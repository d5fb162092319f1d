// Copying values into the arena, converted on the way.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack::collate {

// `from` holds `count` unaligned values of type `in`; `to` is aligned for `out`.
void copy_values(std::byte* to, DType out, const std::byte* from, DType in, size_t count);

struct AtomRange {
  int64_t first, n;
};

// Atom numbers (int64 or int32), those of a molecule made int64 ones of the batch, where its atoms are these. Throws
// CorruptFileError for a number that is not below `atoms.n`.
void copy_atom_indices(std::byte* to, const std::byte* from, DType in, size_t count, const AtomRange& atoms);

}  // namespace atompack::collate
