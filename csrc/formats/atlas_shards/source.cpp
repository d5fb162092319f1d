#include "formats/atlas_shards/source.h"

#include <map>
#include <utility>

namespace atompack::atlas_shards {

void ShardSource::announce(std::span<const int64_t> indices) const {
  std::vector<Place> places;
  places.reserve(indices.size());
  for (const int64_t index : indices) places.push_back(reader_->locate(static_cast<uint64_t>(index)));
  reader_->announce(places);
}

Examples ShardSource::read(std::span<const int64_t> indices) const {
  Examples examples;
  examples.values.reserve(indices.size());
  // A block is looked up once for all of its examples, so that a batch holds each block once even if the cache drops
  // it.
  std::map<std::pair<uint64_t, uint64_t>, const ParsedBlock*> held;
  for (const int64_t index : indices) {
    const Place place = reader_->locate(static_cast<uint64_t>(index));
    const ParsedBlock*& block = held[{place.shard, place.block}];
    if (block == nullptr) {
      auto read = reader_->block(place.shard, place.block);
      block = read.get();
      examples.owners.push_back(std::move(read));
    }
    examples.values.push_back(block->example(place.position));
  }
  return examples;
}

}  // namespace atompack::atlas_shards
