// meta.json of a dataset and of its shards (FORMAT.md#metajson).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace atompack::atlas_shards {

// Storage of blocks.
enum class Strategy : uint8_t { bare, zstd, shared_dictionary, own_dictionary };

struct RootMeta {
  std::vector<uint64_t> shard_sizes;  // at the time of writing; informative only
  Strategy strategy = Strategy::bare;
};

struct ShardMeta {
  uint64_t block_size = 1;
  uint64_t stored_examples = 0;
  Strategy strategy = Strategy::bare;
  int64_t level = 0;
  double dictionary_fraction = 0;

  uint64_t n_blocks() const { return stored_examples / block_size + (stored_examples % block_size != 0); }
  // All blocks are full except the last.
  uint64_t examples_in(uint64_t block) const {
    const uint64_t left = stored_examples - block * block_size;
    return left < block_size ? left : block_size;
  }
};

// Throw CorruptFileError for anything but a JSON object, UnsupportedFormatError for other versions, other sets of keys
// and values out of range.
RootMeta parse_root_meta(Bytes text);
ShardMeta parse_shard_meta(Bytes text);

// Encodes in the layout of upstream.
std::string text_of(const RootMeta& meta);
std::string text_of(const ShardMeta& meta);

}  // namespace atompack::atlas_shards
