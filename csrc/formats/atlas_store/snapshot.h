// Consistent state of a store after its last complete flush, while others may be writing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/layer/layers.h"
#include "formats/atlas_store/metadata/metadata_file.h"

namespace atompack::atlas_store {

// The files of one variable.
struct VariableFiles {
  std::vector<array_file::LayerFile> layers;  // those that count, oldest first; empty if the base is missing
  std::string statistics_path;                // empty if they are older than the values
};

// Changes with every flush. Two handles with equal versions show the same data, as long as the first one is open.
struct Version {
  std::optional<io::FileVersion> metadata;
  std::optional<io::FileVersion> intent;  // of the record of an incomplete flush, in a remote store of any flush
  bool operator==(const Version&) const = default;
};

struct Snapshot {
  Metadata metadata;
  std::optional<Form> form;              // nullopt: there is no metadata file yet
  std::vector<VariableFiles> variables;  // by variable number
  std::vector<std::string> warnings;     // includes those of the metadata
  Version version;
  // Kept open, so that no other file can get their inode numbers.
  std::shared_ptr<const io::OpenFile> metadata_file, intent_file;
};

// Throws IoError, also if the store is written to so often that no consistent state can be read; CorruptFileError,
// UnsupportedFormatError. CorruptFileError also if the metadata has more than `max_metadata_bytes`, compressed or not.
Snapshot read_snapshot(const io::Location& store, uint64_t max_metadata_bytes = array_file::kMaxMetadataBytes);

// True if nobody has started a flush since the snapshot was taken. Layers that are opened later belong to the snapshot
// if they can be opened and this is true afterwards (FORMAT.md, "Reading beside a writer").
bool is_current(const io::Location& store, const Snapshot& snapshot);

}  // namespace atompack::atlas_store
