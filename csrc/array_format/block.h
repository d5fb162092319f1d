// Blocks: what chunks are packed into and compressed as one.
#pragma once

#include <cstdint>
#include <vector>

#include "array_format/footer.h"

namespace atompack::array_format {

// The bytes of a block, which lies in `region`; decompressed into `buffer` unless it is stored as it is. Throws
// CorruptFileError, before any memory is taken for a size that the stored bytes cannot have; UnsupportedFormatError
// for other codecs.
Bytes decode_block(const BlockRecord& block, Bytes region, std::vector<std::byte>& buffer);

}  // namespace atompack::array_format
