// Zstandard frames (RFC 8878): one or several, back to back.
#pragma once

#include <span>

#include "base/bytes.h"

namespace atompack::codec {

// Found by walking over the block headers: 128 KiB a block at most, and no more than a frame declares.
uint64_t zstd_decoded_bound(Bytes stored);
uint64_t zstd_compressed_bound(uint64_t bytes);
// One frame that declares its content size, without checksum.
size_t zstd_compress(int level, Bytes in, std::span<std::byte> out);
void zstd_decompress(Bytes stored, std::span<std::byte> out);

}  // namespace atompack::codec
