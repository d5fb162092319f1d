// Raw LZ4 blocks: no frame, no size prefix.
#pragma once

#include <span>

#include "base/bytes.h"

namespace atompack::codec {

uint64_t lz4_decoded_bound(Bytes stored);
// Returns the exact decoded size without decoding. Throws CorruptFileError if the block is truncated.
uint64_t lz4_decoded_bytes(Bytes stored);
uint64_t lz4_compressed_bound(uint64_t bytes);
size_t lz4_compress(int level, Bytes in, std::span<std::byte> out);
void lz4_decompress(Bytes stored, std::span<std::byte> out);
// Decompresses the first out.size() bytes.
void lz4_decompress_front(Bytes stored, std::span<std::byte> out);

}  // namespace atompack::codec
