// A store as it is after its last whole flush, while others may be writing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/layer/layer_files.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// The files of one variable.
struct VariableFiles {
  std::vector<array_file::LayerFile> layers;  // those that count, oldest first; empty where the base is missing
  std::string statistics_path;                // empty where they are older than the values
};

// Changes with every flush. Of two handles with equal versions both show the same, as long as the first one is open.
struct Version {
  std::optional<io::FileVersion> metadata;
  std::optional<io::FileVersion> intent;  // of a record whose flush is not complete
  bool operator==(const Version&) const = default;
};

struct Snapshot {
  Metadata metadata;
  std::optional<Form> form;              // nothing: there is no metadata file yet
  std::vector<VariableFiles> variables;  // by their numbers
  std::vector<std::string> warnings;     // those of the metadata too
  Version version;
  // Kept open, so that no other file can be taken for them.
  std::shared_ptr<const io::HeldFile> metadata_file, intent_file;
};

// Throws IoError, also where the store is written to so often that no two looks at it are the same; CorruptFileError,
// UnsupportedFormatError.
// CorruptFileError also where the metadata has more than `max_metadata_bytes`, compressed or not.
Snapshot read_snapshot(const std::string& store, uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes);

// True while nobody has flushed, or begun to, since the snapshot was taken. Layers that are opened after that belong to
// the snapshot if they can be opened and this is true afterwards (FORMAT.md, "Reading beside a writer").
bool is_current(const std::string& store, const Snapshot& snapshot);

}  // namespace atompack::atlas_store
