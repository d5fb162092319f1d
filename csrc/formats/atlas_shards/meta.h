// meta.json of a data set and of its shards (FORMAT.md#metajson).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace atompack::atlas_shards {

// How blocks are stored.
enum class Strategy : uint8_t { bare, zstd, shared_dictionary, own_dictionary };

struct RootMeta {
  std::vector<uint64_t> shard_sizes;  // when it was written; nothing is found by them
  Strategy strategy = Strategy::bare;
};

struct ShardMeta {
  uint64_t block_size = 1;
  uint64_t stored_examples = 0;
  Strategy strategy = Strategy::bare;
  int64_t level = 0;
  double dictionary_fraction = 0;

  uint64_t n_blocks() const { return stored_examples / block_size + (stored_examples % block_size != 0); }
  // All blocks are full but the last.
  uint64_t examples_in(uint64_t block) const {
    const uint64_t left = stored_examples - block * block_size;
    return left < block_size ? left : block_size;
  }
};

// Throw CorruptFileError for what is no JSON object, UnsupportedFormatError for other versions, other sets of keys and
// values out of their ranges.
RootMeta parse_root_meta(Bytes text);
ShardMeta parse_shard_meta(Bytes text);

// The same, as upstream lays it out.
std::string text_of(const RootMeta& meta);
std::string text_of(const ShardMeta& meta);

}  // namespace atompack::atlas_shards
