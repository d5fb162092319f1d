// Codecs of stored units: compression and decompression between caller-owned buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/names.h"

namespace atompack::codec {

enum class Codec : uint8_t { none, lz4, zstd };

using atompack::name_of;
constexpr Names<3> names_of(Codec) { return {"codec", {"none", "lz4", "zstd"}}; }

// Upper bound of the decompressed size of this unit. A claimed size is checked against it before memory is allocated.
// Throws CorruptFileError if the bytes are not a valid unit.
uint64_t decoded_bound(Codec codec, Bytes stored);

// Approximate cost of decompression relative to copying its output.
int64_t work_factor(Codec codec);

// Maximum compressed size of this many bytes. Throws FieldError if the codec cannot compress that many.
uint64_t compressed_bound(Codec codec, uint64_t bytes);

// Compresses to one unit at the start of `out`, which has compressed_bound() bytes; returns its size. Levels are those
// of the libraries (lz4: fast mode below 3, high-compression mode from 3 to 12) and are clamped to the valid range.
// Thread-safe: contexts are kept per thread.
size_t compress(Codec codec, int level, Bytes in, std::span<std::byte> out);

// Decompresses the first out.size() bytes of the unit and ignores the rest.
void decompress_front(Codec codec, Bytes stored, std::span<std::byte> out);

// Decompresses the whole unit, which must fill `out` exactly. Thread-safe: contexts are kept per thread.
void decompress(Codec codec, Bytes stored, std::span<std::byte> out);

// Valid compression levels of each codec.
struct LevelRange {
  int min, max;
};

// zstd: the range of the linked library. lz4: fast mode up to 2, high-compression mode from 3. Without a codec the
// level is unused, and the union of all ranges is accepted.
LevelRange level_range(Codec codec);

// Throws FieldError if the level is outside the codec's range; the libraries would clamp it silently.
void check_level(Codec codec, int level);

// Threads that compress what the caller's thread prepares in the meantime. `n_threads`: at most; 0: one per core, up to
// 16. Without compression one is enough.
unsigned threads_for(Codec codec, unsigned n_threads);

}  // namespace atompack::codec
