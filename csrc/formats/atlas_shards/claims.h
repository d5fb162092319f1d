// Checks of a shard's metadata against its files, before a block is read.
#pragma once

#include <memory>

#include "formats/atlas_shards/meta.h"
#include "io/open_file.h"

namespace atompack::atlas_shards {

// The files of a shard; null where they are missing or were not needed.
struct ShardFiles {
  std::shared_ptr<const io::OpenFile> index, data;
};

// Throws CorruptFileError unless the index in `folder` has as many blocks as `meta` requires and the blocks can hold
// its examples, each of which takes at least one byte. Reads the header of the index, and the blocks too if there are
// more examples than stored bytes. Missing files are reported when they are read. Returns the files that it opened.
ShardFiles check_claims(const io::Location& folder, const ShardMeta& meta);

}  // namespace atompack::atlas_shards
