#include "codec/zstd_codec.h"

#include <zdict.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "base/checked_math.h"
#include "base/error.h"

namespace atompack::codec {
namespace {

constexpr uint64_t kMaxBlockBytes = uint64_t{128} << 10;

struct FreeDecompression {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_DCtx* decompression_context() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeDecompression> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

// Context for streaming decompression.
ZSTD_DCtx* fresh_context() {
  ZSTD_DCtx* const context = decompression_context();
  ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
  return context;
}

// RFC 8878, 3.1.1.1.2: no block is larger than the window, whose sizes come in eight steps per power of two.
uint64_t max_block_bytes(uint8_t window_descriptor) {
  const uint64_t base = uint64_t{1024} << (window_descriptor >> 3);
  return std::min(kMaxBlockBytes, base + base / 8 * (window_descriptor & 7));
}

// RFC 8878, 3.1.1.1: reads the header after the descriptor byte; returns the declared content size, if any.
std::optional<uint64_t> skip_frame_header(ByteCursor& cursor, uint8_t descriptor, uint64_t& block_limit) {
  const bool single_segment = (descriptor & 0x20) != 0;
  constexpr std::array<uint64_t, 4> kDictionaryIdBytes{0, 1, 2, 4};
  if (!single_segment) block_limit = max_block_bytes(cursor.read_le<uint8_t>("zstd window descriptor"));
  cursor.take(kDictionaryIdBytes[descriptor & 3], "zstd dictionary id");
  switch (descriptor >> 6) {
    case 1:
      return cursor.read_le<uint16_t>("zstd content size") + uint64_t{256};
    case 2:
      return cursor.read_le<uint32_t>("zstd content size");
    case 3:
      return cursor.read_le<uint64_t>("zstd content size");
    default:
      if (single_segment) return cursor.read_le<uint8_t>("zstd content size");
      return std::nullopt;
  }
}

// RFC 8878, 3.1.1.2: three header bytes hold the last-block flag, the type and the size.
uint64_t skip_blocks(ByteCursor& cursor, uint64_t max_bytes) {
  uint64_t bound = 0;
  for (bool last = false; !last;) {
    const Bytes raw = cursor.take(3, "zstd block header");
    const auto at = [&](size_t i) { return static_cast<uint32_t>(raw[i]); };
    const uint32_t header = at(0) | at(1) << 8 | at(2) << 16;
    last = (header & 1) != 0;
    const uint32_t type = header >> 1 & 3;
    const uint64_t size = header >> 3;
    // The library accepts longer raw and repeated blocks, but no encoder makes them.
    if (size > max_bytes) {
      throw CorruptFileError(cat("zstd block: expected at most ", max_bytes, " bytes, got ", size),
                             cursor.position() - 3);
    }
    const bool repeats_one_byte = type == 1;
    cursor.take(repeats_one_byte ? 1 : size, "zstd block");
    bound += type == 2 ? kMaxBlockBytes : size;
  }
  return bound;
}

constexpr uint32_t kMagic = 0xFD2FB528;

// Reads a frame after its magic number.
ZstdFrame skip_frame(ByteCursor& cursor) {
  const auto descriptor = cursor.read_le<uint8_t>("zstd frame header descriptor");
  ZstdFrame frame;
  uint64_t block_limit = kMaxBlockBytes;
  frame.content_bytes = skip_frame_header(cursor, descriptor, block_limit);
  frame.bound = skip_blocks(cursor, block_limit);
  const bool has_checksum = (descriptor & 4) != 0;
  if (has_checksum) cursor.take(4, "zstd checksum");
  frame.stored_bytes = cursor.position();
  return frame;
}

[[noreturn]] void refuse_magic(const ByteCursor& cursor) {
  throw CorruptFileError("zstd: expected a frame, got other bytes", cursor.position() - 4);
}

void check_decompressed(size_t got, size_t expected) {
  if (ZSTD_isError(got)) throw_corrupt("zstd: ", ZSTD_getErrorName(got));
  if (got != expected) throw_corrupt("zstd: expected ", expected, " bytes, got ", got);
}

// Streaming decompression allocates the window that a frame claims; the bound limits it to what the frame justifies. Of
// larger windows the system provides what was decompressed.
int window_log(uint64_t bound) {
  constexpr int kMin = 10, kLarge = 26, kMax = 31;
  const int log = std::bit_width(bound);
  return log > kLarge ? kMax : std::max(log, kMin);
}

// Used if the window is too large for that, and the content is not.
void copy_front(Bytes stored, uint64_t bound, std::span<std::byte> out) {
  const auto whole = std::make_unique_for_overwrite<std::byte[]>(bound);
  const size_t got = ZSTD_decompressDCtx(decompression_context(), whole.get(), bound, stored.data(), stored.size());
  check_decompressed(ZSTD_isError(got) ? got : std::min(got, out.size()), out.size());
  store(out.data(), {whole.get(), out.size()});
}

struct FreeCompression {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// The library trains on three quarters of the samples; with samples of only a few bytes in total it divides by zero or
// reads past their end.
constexpr size_t kMinSamples = 7;
constexpr size_t kMinBytes = 256;

bool are_enough(std::span<const Bytes> samples) {
  size_t bytes = 0;
  for (const Bytes sample : samples.first(samples.size() / 2)) bytes += sample.size();
  return samples.size() >= kMinSamples && bytes >= kMinBytes;
}

}  // namespace

uint64_t zstd_decoded_bound(Bytes stored) {
  constexpr uint32_t kSkippable = 0x184D2A50;
  ByteCursor cursor(stored);
  uint64_t total = 0;
  while (cursor.remaining() > 0) {
    const auto magic = cursor.read_le<uint32_t>("zstd magic");
    if ((magic & ~uint32_t{0xF}) == kSkippable) {
      cursor.take(cursor.read_le<uint32_t>("zstd skippable frame size"), "zstd skippable frame");
      continue;
    }
    if (magic != kMagic) refuse_magic(cursor);
    const ZstdFrame frame = skip_frame(cursor);
    total = checked_add(total, std::min(frame.bound, frame.content_bytes.value_or(frame.bound)), "zstd content size");
  }
  return total;
}

ZstdFrame zstd_first_frame(Bytes stored) {
  ByteCursor cursor(stored);
  if (cursor.read_le<uint32_t>("zstd magic") != kMagic) refuse_magic(cursor);
  return skip_frame(cursor);
}

uint64_t zstd_compressed_bound(uint64_t bytes) { return ZSTD_compressBound(bytes); }

size_t zstd_compress(int level, Bytes in, std::span<std::byte> out) {
  const size_t got = ZSTD_compressCCtx(zstd_compression_context(), out.data(), out.size(), in.data(), in.size(), level);
  if (ZSTD_isError(got)) throw InternalError(cat("zstd: ", ZSTD_getErrorName(got)));
  return got;
}

void zstd_decompress(Bytes stored, std::span<std::byte> out) {
  const size_t got = ZSTD_decompressDCtx(decompression_context(), out.data(), out.size(), stored.data(), stored.size());
  check_decompressed(got, out.size());
}

void zstd_decompress_front(Bytes stored, std::span<std::byte> out) {
  const uint64_t bound = zstd_decoded_bound(stored);
  ZSTD_DCtx* const context = fresh_context();
  ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, window_log(bound));
  ZSTD_inBuffer from{stored.data(), stored.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  while (to.pos < to.size) {
    const size_t taken = from.pos, made = to.pos;
    const size_t left = ZSTD_decompressStream(context, &to, &from);
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge) return copy_front(stored, bound, out);
    if (ZSTD_isError(left)) throw_corrupt("zstd: ", ZSTD_getErrorName(left));
    if (from.pos == taken && to.pos == made) check_decompressed(to.pos, to.size);  // no more progress is possible
  }
}

DecodedContent zstd_decompress_unsized(Bytes stored, uint64_t max_bytes, std::string_view limit) {
  const uint64_t bound = std::min(zstd_decoded_bound(stored), max_bytes);  // also checks that all frames are complete
  ZSTD_DCtx* const context = fresh_context();
  DecodedContent content{std::make_unique_for_overwrite<std::byte[]>(bound)};
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  ZSTD_outBuffer out{content.memory.get(), bound, 0};
  for (size_t left = 0; in.pos < in.size || left != 0;) {
    const size_t taken = in.pos, made = out.pos;
    left = ZSTD_decompressStream(context, &out, &in);
    if (ZSTD_isError(left)) throw_corrupt("zstd: ", ZSTD_getErrorName(left));
    if (in.pos == taken && out.pos == made) {
      throw CorruptFileError(
          cat("zstd: expected at most ", bound == max_bytes ? limit : "", bound, " bytes, got more"));
    }
  }
  content.size = out.pos;
  return content;
}

void ZstdDictionary::Free::operator()(ZSTD_DDict_s* dictionary) const { ZSTD_freeDDict(dictionary); }

ZstdDictionary::ZstdDictionary(Bytes content) : dictionary_(ZSTD_createDDict(content.data(), content.size())) {
  if (!dictionary_) throw_corrupt("zstd dictionary: expected a complete one, got ", content.size(), " bytes");
}

void ZstdDictionary::decompress(Bytes frame, std::span<std::byte> out) const {
  const size_t got = ZSTD_decompress_usingDDict(decompression_context(), out.data(), out.size(), frame.data(),
                                                frame.size(), dictionary_.get());
  check_decompressed(got, out.size());
}

ZSTD_CCtx* zstd_compression_context() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeCompression> context(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

std::vector<std::byte> train_zstd_dictionary(std::span<const Bytes> samples, uint64_t max_bytes) {
  if (!are_enough(samples)) return {};
  std::vector<std::byte> together;
  std::vector<size_t> sizes;
  for (const Bytes sample : samples) {
    together.insert(together.end(), sample.begin(), sample.end());
    sizes.push_back(sample.size());
  }
  std::vector<std::byte> dictionary(max_bytes);
  const size_t got = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), together.data(), sizes.data(),
                                           static_cast<unsigned>(sizes.size()));
  dictionary.resize(ZDICT_isError(got) ? 0 : got);
  return dictionary;
}

void ZstdEncoder::Free::operator()(ZSTD_CDict_s* dictionary) const { ZSTD_freeCDict(dictionary); }

ZstdEncoder::ZstdEncoder(int level, Bytes dictionary) : level_(level) {
  if (dictionary.empty()) return;
  dictionary_.reset(ZSTD_createCDict(dictionary.data(), dictionary.size(), level));
  if (!dictionary_) throw std::bad_alloc();
}

std::vector<std::byte> ZstdEncoder::compress(Bytes content) const {
  std::vector<std::byte> frame(zstd_compressed_bound(content.size()));
  if (!dictionary_) {
    frame.resize(zstd_compress(level_, content, frame));
    return frame;
  }
  const size_t got = ZSTD_compress_usingCDict(zstd_compression_context(), frame.data(), frame.size(), content.data(),
                                              content.size(), dictionary_.get());
  if (ZSTD_isError(got)) throw InternalError(cat("zstd: ", ZSTD_getErrorName(got)));
  frame.resize(got);
  return frame;
}

}  // namespace atompack::codec
