// The codecs of stored units: bytes in, bytes out into the caller's buffer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace atompack::codec {

enum class Codec : uint8_t { none, lz4, zstd };

std::string_view name_of(Codec codec);

// The most bytes that this unit can decompress to, however it is made: what a claimed size is held against before
// memory is taken for it. Throws CorruptFileError where the unit is no such unit at all.
uint64_t decoded_bound(Codec codec, Bytes stored);

// How much longer than copying its output decompression takes, roughly.
int64_t work_factor(Codec codec);

// The most bytes that this many can become, whatever they are. Throws FieldError if the codec cannot take so many.
uint64_t compressed_bound(Codec codec, uint64_t bytes);

// Compresses to one unit at the start of `out`, which has compressed_bound() bytes; returns how many it takes. Levels
// are the libraries' own (lz4: below 3 its fast mode, from 3 to 12 its high-compression mode); those out of range are
// clamped. Thread-safe: contexts are kept per thread.
size_t compress(Codec codec, int level, Bytes in, std::span<std::byte> out);

// Decompresses no more than it takes to fill `out`, with the first bytes of the unit; what follows is not looked at.
void decompress_front(Codec codec, Bytes stored, std::span<std::byte> out);

// Decompresses the whole unit; it must fill `out` exactly. Thread-safe: contexts are kept per thread.
void decompress(Codec codec, Bytes stored, std::span<std::byte> out);

}  // namespace atompack::codec
