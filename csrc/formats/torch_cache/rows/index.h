// Checks of the rows of sections: the entry of each row, and its length by the index.
#pragma once

#include "formats/torch_cache/hdf5/contents.h"

namespace atompack::torch_cache {

// Returns the row of each entry, -1 if there is none; of several the last one. Throws CorruptFileError unless row r has
// cache_row r and every entry exists.
std::vector<int64_t> rows_by_entry(const std::string& section, std::span<const int64_t> cache_row,
                                   std::span<const int64_t> entry_idx, int64_t n_entries);

// Throws CorruptFileError unless row `row` has `n_rows` times `row_length` elements; both fit in 32 bits.
void check_length(const VlenColumn& column, int64_t row, int64_t n_rows, int64_t row_length);

// Throws CorruptFileError unless every index of the row is from 0 to n_atoms - 1.
void check_indices(const VlenColumn& column, Bytes row, int64_t n_atoms);

}  // namespace atompack::torch_cache
