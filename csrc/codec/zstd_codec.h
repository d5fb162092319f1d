// Zstandard frames (RFC 8878): one or several, back to back.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

struct ZSTD_DDict_s;

namespace atompack::codec {

// Found by walking over the block headers: 128 KiB a block at most, and no more than a frame declares.
uint64_t zstd_decoded_bound(Bytes stored);
uint64_t zstd_compressed_bound(uint64_t bytes);
// One frame that declares its content size, without checksum.
size_t zstd_compress(int level, Bytes in, std::span<std::byte> out);
void zstd_decompress(Bytes stored, std::span<std::byte> out);
// The first out.size() bytes.
void zstd_decompress_front(Bytes stored, std::span<std::byte> out);
// For frames that need not say how much they hold: memory is taken as it fills. Throws CorruptFileError where it is
// more than `most` bytes, whose option is called `limit` ("name=").
std::vector<std::byte> zstd_decompress_unsized(Bytes stored, uint64_t most, std::string_view limit = {});

// What a frame says of itself, found without decompressing it.
struct ZstdFrame {
  uint64_t stored_bytes = 0;
  std::optional<uint64_t> content_bytes;  // as declared
  uint64_t bound = 0;                     // of the content, by the blocks alone
};

// The frame at the front; what follows it is not looked at. Throws CorruptFileError for any other bytes, those of
// skippable frames too.
ZstdFrame zstd_first_frame(Bytes stored);

// What frames refer back to: a trained dictionary where the bytes begin like one, else the bytes as such. For any
// number of threads.
class ZstdDictionary {
 public:
  // Keeps a copy. Throws CorruptFileError for a damaged trained dictionary.
  explicit ZstdDictionary(Bytes content);

  // The whole of one frame, which may or may not use the dictionary; it must fill `out` exactly.
  void decompress(Bytes frame, std::span<std::byte> out) const;

 private:
  struct Free {
    void operator()(ZSTD_DDict_s* dictionary) const;
  };
  std::unique_ptr<ZSTD_DDict_s, Free> dictionary_;
};

}  // namespace atompack::codec
