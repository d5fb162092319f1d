// Recovery from an interrupted flush.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/atlas_store/flush/intent.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// Path of the base of a variable's array file. Throws CorruptFileError for names that cannot be a folder.
std::string base_path(const std::string& store, std::string_view variable);

// Paths of the sidecars that are ignored because their flush is incomplete, including unpublished ones. Throws IoError.
std::vector<std::string> layers_rolled_back(const io::Location& store, const Intent& intent,
                                            const std::optional<MetadataFile>& metadata);

// Removes them for good, with all unpublished files and the record of the flush; after a complete flush, renews
// statistics. The caller must hold the lock of the store. Returns warnings.
std::vector<std::string> recover(const std::string& store, uint64_t max_metadata_bytes, io::FileSystem& files);

}  // namespace atompack::atlas_store
