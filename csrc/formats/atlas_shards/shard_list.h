// The shards of a dataset, found in its folder (FORMAT.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/atlas_shards/claims.h"
#include "formats/atlas_shards/meta.h"
#include "io/file.h"
#include "io/location.h"

namespace atompack::atlas_shards {

// Treatment of shards of which a file, or the whole folder, does not exist: the examples of the others are numbered
// consecutively, as in the original, where a missing file is noticed only when it is read; or IoError (ENOENT); or the
// other examples keep their numbers.
enum class MissingShards : uint8_t { renumber, error, keep };

struct Shard {
  std::string name;
  ShardMeta meta{};
  uint64_t first_example = 0;
  io::FileVersion version{};  // of its meta.json
  bool is_lost = false;       // only with MissingShards::keep; then `meta` may be a guess, but its number of examples
};

struct ShardList {
  std::vector<Shard> shards;
  std::vector<ShardFiles> files;  // of each shard, if they take no descriptors
  uint64_t n_examples = 0;
};

// Reads the meta.json of every shard, and checks it against the sizes of its files. Throws IoError, CorruptFileError,
// UnsupportedFormatError.
ShardList list_shards(const io::Location& root, const RootMeta& meta, MissingShards missing);

// Describes the first difference from the shard sizes in the root's meta.json, which the original does not check.
std::optional<std::string> difference_of(const std::vector<Shard>& shards, const RootMeta& meta);

}  // namespace atompack::atlas_shards
