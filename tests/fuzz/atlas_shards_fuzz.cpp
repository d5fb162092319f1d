#include <optional>
#include <vector>

#include "formats/atlas_shards/index.h"
#include "formats/atlas_shards/meta.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using namespace atlas_shards;

constexpr uint64_t kMostFuzzedBytes = uint64_t{16} << 20;

struct ShardInput {
  uint64_t n_blocks;
  std::optional<codec::ZstdDictionary> dictionary;
  bool is_bare;
  Bytes npy, data;
};

ShardInput cut_input(ByteCursor& cursor) {
  ShardInput input;
  const auto flags = cursor.read_le<uint8_t>("flags");
  input.is_bare = (flags & 1) != 0;
  input.n_blocks = cursor.read_le<uint8_t>("blocks");
  input.npy = cursor.take(cursor.read_le<uint8_t>("index"), "index");
  const Bytes dictionary = cursor.take(cursor.read_le<uint16_t>("dictionary"), "dictionary");
  if ((flags & 2) != 0) input.dictionary.emplace(dictionary);
  input.data = cursor.take(cursor.remaining(), "data");
  return input;
}

Block copy_of(Bytes bytes) {
  Block block(bytes.size());
  store(block.writable().data(), bytes);
  return block;
}

Block decompressed(const ShardInput& input, Bytes stored) {
  return decompress_block(stored, input.dictionary ? &*input.dictionary : nullptr, kMostFuzzedBytes);
}

void read_one(const ShardInput& input, BlockRange range, pickle::Machine& machine) {
  const Bytes stored = input.data.subspan(range.begin, range.size());
  const ParsedBlock parsed(input.is_bare ? copy_of(stored) : decompressed(input, stored), 1, machine);
  const Value examples = parsed.examples();
  require(examples.size() >= 1, "a block has the examples that were asked for");
}

}  // namespace

void read_shard(Bytes input) {
  static pickle::Machine machine;
  allowing_damage([&] {
    ByteCursor cursor(input);
    const ShardInput shard = cut_input(cursor);
    const BlockIndex index({shard.npy.begin(), shard.npy.end()}, shard.n_blocks, shard.data.size());
    uint64_t before = 0;
    for (uint64_t i = 0; i < index.n_blocks(); ++i) {
      const BlockRange range = index.range(i);
      require(range.begin >= before && range.end >= range.begin, "offsets do not decrease");
      require(range.end <= shard.data.size(), "blocks lie inside the data");
      allowing_damage([&] { read_one(shard, range, machine); });
      before = range.end;
    }
  });
}

void read_shard_meta(Bytes input) {
  allowing_damage(
      [&] { require(parse_root_meta(input).shard_sizes.size() <= input.size(), "sizes stand in the file"); });
  allowing_damage([&] {
    const ShardMeta meta = parse_shard_meta(input);
    require(meta.block_size > 0 && meta.n_blocks() <= meta.stored_examples, "no block is empty");
    require(meta.n_blocks() == 0 || meta.examples_in(meta.n_blocks() - 1) > 0, "the last block is not empty");
  });
}

}  // namespace atompack::fuzz
