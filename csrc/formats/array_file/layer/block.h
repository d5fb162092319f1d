// Blocks: what chunks are packed into and compressed as one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

// A block as it is stored, whose sizes were checked.
struct BlockView {
  codec::Codec codec = codec::Codec::none;
  Bytes stored;
  uint64_t decoded_bytes = 0;
};

// Throws CorruptFileError unless the block lies in a region of this many bytes.
void check_lies_in(const BlockRecord& block, uint64_t region_bytes);

// A block that lies in `region`. Throws CorruptFileError, before any memory is taken for a size that the stored bytes
// cannot have; UnsupportedFormatError for other codecs.
BlockView find_block(const BlockRecord& block, Bytes region);

// Its bytes; `out` has as many as it decodes to. Throws CorruptFileError.
void decode_block(const BlockView& block, std::span<std::byte> out);

// Its first bytes: no more of it is decompressed than fills `out`. Throws CorruptFileError.
void decode_front(const BlockView& block, std::span<std::byte> out);

// The same as the first; decompressed into `buffer` unless the block is stored as it is.
Bytes decode_block(const BlockView& block, std::vector<std::byte>& buffer);

}  // namespace atompack::array_file
