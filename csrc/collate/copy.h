// Copying values into the arena, converted on the way.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack::collate {

// `from` holds `count` unaligned values of type `in`; `to` is aligned for `out`.
void copy_values(std::byte* to, DType out, const std::byte* from, DType in, size_t count);

// int64 atom numbers, those of the molecule made those of the batch: `first_atom` more. Throws CorruptFileError for a
// number that is not in [0, n_atoms).
void copy_atom_indices(std::byte* to, const std::byte* from, size_t count, int64_t first_atom, int64_t n_atoms);

// NaN for floats, 0 for integers, false for booleans.
void fill_missing(std::byte* to, DType out, size_t count);

}  // namespace atompack::collate
