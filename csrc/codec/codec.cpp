#include "codec/codec.h"

#include <lz4hc.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "codec/lz4_codec.h"
#include "codec/zstd_codec.h"

namespace atompack::codec {

uint64_t decoded_bound(Codec codec, Bytes stored) {
  switch (codec) {
    case Codec::none:
      return stored.size();
    case Codec::lz4:
      return lz4_decoded_bound(stored);
    case Codec::zstd:
      return zstd_decoded_bound(stored);
  }
  throw InternalError("codec out of range");
}

int64_t work_factor(Codec codec) {
  switch (codec) {
    case Codec::none:
      return 1;
    case Codec::lz4:
      return 2;
    case Codec::zstd:
      return 8;
  }
  throw InternalError("codec out of range");
}

uint64_t compressed_bound(Codec codec, uint64_t bytes) {
  switch (codec) {
    case Codec::none:
      return bytes;
    case Codec::lz4:
      return lz4_compressed_bound(bytes);
    case Codec::zstd:
      return zstd_compressed_bound(bytes);
  }
  throw InternalError("codec out of range");
}

size_t compress(Codec codec, int level, Bytes in, std::span<std::byte> out) {
  switch (codec) {
    case Codec::none:
      if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
      return in.size();
    case Codec::lz4:
      return lz4_compress(level, in, out);
    case Codec::zstd:
      return zstd_compress(level, in, out);
  }
  throw InternalError("codec out of range");
}

void decompress_front(Codec codec, Bytes stored, std::span<std::byte> out) {
  switch (codec) {
    case Codec::none:
      if (stored.size() < out.size()) {
        throw_corrupt("stored bytes: expected at least ", out.size(), ", got ", stored.size());
      }
      if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
      return;
    case Codec::lz4:
      return lz4_decompress_front(stored, out);
    case Codec::zstd:
      return zstd_decompress_front(stored, out);
  }
  throw InternalError("codec out of range");
}

void decompress(Codec codec, Bytes stored, std::span<std::byte> out) {
  switch (codec) {
    case Codec::none:
      if (stored.size() != out.size()) throw_corrupt("stored bytes: expected ", out.size(), ", got ", stored.size());
      if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
      return;
    case Codec::lz4:
      return lz4_decompress(stored, out);
    case Codec::zstd:
      return zstd_decompress(stored, out);
  }
  throw InternalError("codec out of range");
}

LevelRange level_range(Codec codec) {
  if (codec == Codec::lz4) return {0, LZ4HC_CLEVEL_MAX};
  return {ZSTD_minCLevel(), ZSTD_maxCLevel()};
}

void check_level(Codec codec, int level) {
  const auto [min, max] = level_range(codec);
  if (level >= min && level <= max) return;
  throw FieldError(cat("level: expected ", min, " to ", max, " for codec ", name_of(codec), ", got ", level));
}

unsigned threads_for(Codec codec, unsigned n_threads) {
  constexpr unsigned kMax = 16;
  if (codec == Codec::none) return 1;
  return n_threads > 0 ? n_threads : std::clamp(std::thread::hardware_concurrency(), 1U, kMax);
}

}  // namespace atompack::codec
