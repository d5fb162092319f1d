// Comparison of the records of two files.
#pragma once

#include "formats/atp/reader.h"

namespace atompack::atp {

// Throws CorruptFileError unless molecules `first`, `first` + 1, ... of `copy` equal, decompressed, those of `original`
// at `indices`.
void check_same_records(const Reader& original, std::span<const int64_t> indices, const Reader& copy, int64_t first);

}  // namespace atompack::atp
