// The shards of a dataset, found in its folder (FORMAT.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/atlas_shards/meta.h"
#include "io/file.h"
#include "io/open_file.h"

namespace atompack::atlas_shards {

// Names of the folders of shards (FORMAT.md#names).

// The name of the shard that is appended after the one of this name: after it in byte order, and of digits only if it
// is. No existing folder has to be renamed, so that open readers find their files.
std::string successor_of(const std::string& name);

// The names of `n` shards that were written in one run, or whose first ones were and the others appended: numbers of
// `width` digits, continued by successor_of().
std::vector<std::string> numbered_names(uint64_t n, size_t width);

// The digits of the last number below `n`: the width of the names of shards that are written in one run.
size_t usual_width(uint64_t n);

// The names of `n` shards of which those in `present` still exist, in this order; nullopt if they do not have the names
// that a writer gives.
std::optional<std::vector<std::string>> original_names(uint64_t n, std::span<const std::string> present);

// Checks of a shard's metadata against its files, before a block is read.

// The files of a shard; null where they are missing or were not needed.
struct ShardFiles {
  std::shared_ptr<const io::OpenFile> index, data;
};

// Throws CorruptFileError unless the index in `folder` has as many blocks as `meta` requires and the blocks can hold
// its examples, each of which takes at least one byte. Reads the header of the index, and the blocks too if there are
// more examples than stored bytes. Missing files are reported when they are read. Returns the files that it opened.
ShardFiles check_claims(const io::Location& folder, const ShardMeta& meta);

// Treatment of shards of which a file, or the whole folder, does not exist: the examples of the others are numbered
// consecutively, as in the original, where a missing file is noticed only when it is read; or IoError (ENOENT); or the
// other examples keep their numbers.
enum class MissingShards : uint8_t { renumber, error, keep };

constexpr Names<3> names_of(MissingShards) { return {"missing_shards", {"renumber", "error", "keep"}}; }

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
