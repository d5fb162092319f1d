// Blocks: groups of chunks that are compressed together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

// A stored block.
struct BlockView {
  codec::Codec codec = codec::Codec::none;
  Bytes stored;
  uint64_t decoded_bytes = 0;
  bool is_read = true;  // false: `stored` is empty, and its size was not checked against it
};

// Throws CorruptFileError unless the block is inside a region of this many bytes.
void check_in_bounds(const BlockRecord& block, uint64_t region_bytes);

// Returns a block in `region`. Throws CorruptFileError for a size that the stored bytes cannot have, before memory is
// allocated for it; UnsupportedFormatError for other codecs.
BlockView find_block(const BlockRecord& block, Bytes region);

// Returns a block in a region of this many bytes without its stored bytes. Makes those of the checks of find_block(),
// in the same order, that its record suffices for.
BlockView describe_block(const BlockRecord& block, uint64_t region_bytes);

// Decodes the block into `out`, which must have its decoded size. Throws CorruptFileError.
void decode_block(const BlockView& block, std::span<std::byte> out);

// Decodes the first out.size() bytes of the block. Throws CorruptFileError.
void decode_front(const BlockView& block, std::span<std::byte> out);

// Returns the decoded bytes, in `buffer` unless the block is stored uncompressed.
Bytes decode_block(const BlockView& block, std::vector<std::byte>& buffer);

}  // namespace atompack::array_file
