// Checks of a shard's metadata against its files, before a block is read.
#pragma once

#include <string>

#include "formats/atlas_shards/meta.h"

namespace atompack::atlas_shards {

// Throws CorruptFileError unless the index in `folder` has as many blocks as `meta` requires and the blocks can hold
// its examples, each of which takes at least one byte. Reads the header of the index, and the blocks too if there are
// more examples than stored bytes. Missing files are reported when they are read.
void check_claims(const std::string& folder, const ShardMeta& meta);

}  // namespace atompack::atlas_shards
