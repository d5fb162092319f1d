#include "codec/lz4_codec.h"

#include <lz4.h>
#include <lz4hc.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace atompack::codec {
namespace {

// State of the high-compression mode: 256 KiB, kept per thread.
void* thread_state() {
  thread_local const std::unique_ptr<std::max_align_t[]> state(
      new std::max_align_t[static_cast<size_t>(LZ4_sizeofStateHC()) / sizeof(std::max_align_t) + 1]);
  return state.get();
}

void check_sizes(Bytes stored, std::span<std::byte> out) {
  constexpr size_t kMax = std::numeric_limits<int>::max();
  if (stored.size() <= kMax && out.size() <= kMax) return;
  throw CorruptFileError(
      cat("lz4 block: expected at most ", kMax, " bytes, got ", std::max(stored.size(), out.size())));
}

void check_decoded(int got, size_t expected) {
  if (got < 0) throw_corrupt("lz4 block: expected ", expected, " bytes, got a damaged block");
  if (static_cast<size_t>(got) != expected) throw_corrupt("lz4 block: expected ", expected, " bytes, got ", got);
}

// A length continues while its bytes are 255.
uint64_t read_length(ByteCursor& cursor, uint64_t nibble) {
  uint64_t length = nibble;
  if (nibble < 15) return length;
  for (uint8_t byte = 255; byte == 255;) {
    byte = cursor.read_le<uint8_t>("lz4 length");
    length += byte;
  }
  return length;
}

}  // namespace

// One byte of a block yields at most 255 bytes of output (a length byte of a match).
uint64_t lz4_decoded_bound(Bytes stored) { return 255 * static_cast<uint64_t>(stored.size()); }

uint64_t lz4_decoded_bytes(Bytes stored) {
  constexpr uint64_t kShortestMatch = 4;
  ByteCursor cursor(stored);
  for (uint64_t bytes = 0;;) {
    const auto token = cursor.read_le<uint8_t>("lz4 token");
    const uint64_t literals = read_length(cursor, token >> 4);
    cursor.take(literals, "lz4 literals");
    bytes += literals;
    if (cursor.remaining() == 0) return bytes;  // the last sequence has no match
    cursor.take(2, "lz4 offset");
    bytes += read_length(cursor, token & 15) + kShortestMatch;
  }
}

uint64_t lz4_compressed_bound(uint64_t bytes) {
  constexpr uint64_t kMax = LZ4_MAX_INPUT_SIZE;
  if (bytes > kMax) throw FieldError(cat("lz4: expected at most ", kMax, " bytes, got ", bytes));
  return static_cast<uint64_t>(LZ4_compressBound(static_cast<int>(bytes)));
}

size_t lz4_compress(int level, Bytes in, std::span<std::byte> out) {
  // The library reads the first byte even if the input is empty.
  const auto* const from = in.empty() ? "" : reinterpret_cast<const char*>(in.data());
  auto* const to = reinterpret_cast<char*>(out.data());
  const int n = static_cast<int>(in.size());
  const int capacity = static_cast<int>(std::min<size_t>(out.size(), std::numeric_limits<int>::max()));
  const int got = level < LZ4HC_CLEVEL_MIN ? LZ4_compress_default(from, to, n, capacity)
                                           : LZ4_compress_HC_extStateHC(thread_state(), from, to, n, capacity, level);
  if (got <= 0) throw InternalError("lz4: the output buffer is too small");
  return static_cast<size_t>(got);
}

void lz4_decompress(Bytes stored, std::span<std::byte> out) {
  check_sizes(stored, out);
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(out.data()),
                                      static_cast<int>(stored.size()), static_cast<int>(out.size()));
  check_decoded(got, out.size());
}

void lz4_decompress_front(Bytes stored, std::span<std::byte> out) {
  check_sizes(stored, out);
  const int n = static_cast<int>(out.size());
  const int got =
      LZ4_decompress_safe_partial(reinterpret_cast<const char*>(stored.data()), reinterpret_cast<char*>(out.data()),
                                  static_cast<int>(stored.size()), n, n);
  check_decoded(got, out.size());
}

}  // namespace atompack::codec
