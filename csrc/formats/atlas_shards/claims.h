// Checks of a shard's metadata against its files, before a block is read.
#pragma once

#include <string>

#include "formats/atlas_shards/meta.h"

namespace atompack::atlas_shards {

// Throws CorruptFileError unless the index in `folder` has as many blocks as `meta` needs and the blocks can hold its
// examples, each of which takes a byte at least. Reads the front of the index; the blocks too where there are more
// examples than stored bytes. Files that are missing are left to who reads them.
void check_claims(const std::string& folder, const ShardMeta& meta);

}  // namespace atompack::atlas_shards
