// A store as it is after its last whole flush, while others may be writing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "array_format/layer_files.h"
#include "atlas_store/metadata_file.h"

namespace atompack::atlas_store {

// The files of one variable.
struct VariableFiles {
  std::vector<array_format::LayerFile> layers;  // those that count, oldest first; empty where the base is missing
  std::string statistics_path;                  // empty where they are older than the values
};

// What of a store changes with every flush.
struct Version {
  std::optional<io::FileVersion> metadata, intent;
  bool operator==(const Version&) const = default;
};

struct Snapshot {
  Metadata metadata;
  std::optional<Form> form;              // nothing: there is no metadata file yet
  std::vector<VariableFiles> variables;  // by their numbers
  std::vector<std::string> warnings;     // those of the metadata too
  Version version;
};

// Throws IoError, also where the store is written to so often that no two looks at it are the same; CorruptFileError,
// UnsupportedFormatError.
// CorruptFileError also where the metadata has more than `max_metadata_bytes`, compressed or not.
Snapshot read_snapshot(const std::string& store, uint64_t max_metadata_bytes = array_format::kMaxMetadataBytes);

// Whether nobody has flushed since. Layers that are opened later than the snapshot was taken are those of the snapshot
// if they can be opened and this holds afterwards.
bool is_current(const std::string& store, const Snapshot& snapshot);

}  // namespace atompack::atlas_store
