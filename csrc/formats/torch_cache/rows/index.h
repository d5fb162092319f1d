// The rows of the sections: which entry each belongs to, and whether it is as long as its index says.
#pragma once

#include "formats/torch_cache/hdf5/contents.h"

namespace atompack::torch_cache {

// The row of each entry, -1 where there is none; of several the last counts. Throws CorruptFileError unless row r says
// that it is row r, and each entry exists.
std::vector<int64_t> rows_by_entry(const std::string& section, std::span<const int64_t> cache_row,
                                   std::span<const int64_t> entry_idx, int64_t n_entries);

// Throws CorruptFileError unless row `row` has `n_rows` times `row_length` elements; neither is larger than 32 bits.
void check_length(const VlenColumn& column, int64_t row, int64_t n_rows, int64_t row_length);

// Throws CorruptFileError unless every index of the row is from 0 to n_atoms - 1.
void check_indices(const VlenColumn& column, Bytes row, int64_t n_atoms);

}  // namespace atompack::torch_cache
