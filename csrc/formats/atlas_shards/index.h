// Index of a shard: the offsets of its blocks (FORMAT.md#indexnpy).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "formats/atlas_shards/npy_header.h"

namespace atompack::atlas_shards {

struct BlockRange {
  uint64_t begin = 0, end = 0;  // in data.bin
  uint64_t size() const { return end - begin; }
};

// Keeps the offsets in their stored width: 64-bit ones would take up to eight times as much.
class BlockIndex {
 public:
  // Parses a whole .npy file. Throws CorruptFileError unless it has n_blocks + 1 ascending offsets that end within
  // `data_bytes`.
  BlockIndex(std::vector<std::byte> npy, uint64_t n_blocks, uint64_t data_bytes);

  uint64_t n_blocks() const { return n_blocks_; }
  // Requires `block` < n_blocks().
  BlockRange range(uint64_t block) const { return {offset(block), offset(block + 1)}; }

  // Maximum size of an index file for this number of offsets: includes room for a header, at most 4 GiB.
  static uint64_t max_file_bytes(uint64_t n_blocks);

 private:
  uint64_t offset(uint64_t i) const;
  void check(uint64_t data_bytes) const;

  NpyHeader header_;
  uint64_t n_blocks_;
  std::vector<std::byte> npy_;
};

// Encodes a whole .npy file of ascending offsets, in the narrowest type that holds the last one.
std::vector<std::byte> encode_index(std::span<const uint64_t> offsets);

}  // namespace atompack::atlas_shards
