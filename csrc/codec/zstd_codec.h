// Zstandard frames (RFC 8878): one or several, back to back.
#pragma once

#include <zstd.h>

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

struct ZSTD_DDict_s;
struct ZSTD_CDict_s;

namespace atompack::codec {

// Per-thread compression context of zstd.

// Lives as long as the thread. Throws std::bad_alloc.
ZSTD_CCtx* zstd_compression_context();

// Computed from the block headers: at most 128 KiB per block and no more than a frame declares.
uint64_t zstd_decoded_bound(Bytes stored);
uint64_t zstd_compressed_bound(uint64_t bytes);
// Writes one frame that declares its content size, without checksum.
size_t zstd_compress(int level, Bytes in, std::span<std::byte> out);
void zstd_decompress(Bytes stored, std::span<std::byte> out);
// Decompresses the first out.size() bytes.
void zstd_decompress_front(Bytes stored, std::span<std::byte> out);

// Decoded bytes in memory for as many as there could have been, of which the system provides those that were written.
struct DecodedContent {
  std::unique_ptr<std::byte[]> memory;
  size_t size = 0;

  Bytes bytes() const { return {memory.get(), size}; }
};

// For frames that may not declare their content size. Throws CorruptFileError if the content exceeds `max_bytes`; the
// message names the option `limit` ("name=") that sets it.
DecodedContent zstd_decompress_unsized(Bytes stored, uint64_t max_bytes, std::string_view limit = {});

// Properties of a frame, found without decompressing it.
struct ZstdFrame {
  uint64_t stored_bytes = 0;
  std::optional<uint64_t> content_bytes;  // as declared
  uint64_t bound = 0;                     // upper bound of the content size, from the block headers
};

// Returns the first frame and ignores the bytes after it. Throws CorruptFileError for anything else, including
// skippable frames.
ZstdFrame zstd_first_frame(Bytes stored);

// Dictionary for decompression: a trained dictionary if the bytes begin like one, otherwise raw content. Thread-safe.
class ZstdDictionary {
 public:
  // Keeps a copy. Throws CorruptFileError for a damaged trained dictionary.
  explicit ZstdDictionary(Bytes content);

  // Decompresses one complete frame, which may or may not use the dictionary and must fill `out` exactly.
  void decompress(Bytes frame, std::span<std::byte> out) const;

 private:
  struct Free {
    void operator()(ZSTD_DDict_s* dictionary) const;
  };
  std::unique_ptr<ZSTD_DDict_s, Free> dictionary_;
};

// Zstandard frames with a dictionary, and training of dictionaries.

// Returns at most `max_bytes`, possibly fewer; empty if the samples are too small or too few.
std::vector<std::byte> train_zstd_dictionary(std::span<const Bytes> samples, uint64_t max_bytes);

// Encoder of frames that declare their content size and their dictionary, if any; without checksum. Thread-safe.
class ZstdEncoder {
 public:
  // Keeps a copy of the dictionary; empty for frames without one.
  ZstdEncoder(int level, Bytes dictionary);

  std::vector<std::byte> compress(Bytes content) const;

 private:
  struct Free {
    void operator()(ZSTD_CDict_s* dictionary) const;
  };
  int level_;
  std::unique_ptr<ZSTD_CDict_s, Free> dictionary_;  // null without a dictionary
};

}  // namespace atompack::codec
