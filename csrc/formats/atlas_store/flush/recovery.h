// Recovery from a flush that was stopped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/atlas_store/flush/intent.h"
#include "io/file_system.h"

namespace atompack::atlas_store {

// The base of a variable's array file. Throws CorruptFileError for names that are no name of a folder.
std::string base_path(const std::string& store, std::string_view variable);

// Paths of the sidecars that do not count, because the flush that adds them has not got to its end; also of those that
// are not published yet. Throws IoError.
std::vector<std::string> layers_rolled_back(const std::string& store, const Intent& intent,
                                            const std::optional<MetadataFile>& metadata);

// Removes them for good, all files that were never published, and the record of the flush; of a flush that was
// complete, statistics that are older than the values. For who holds the lock of the store. Returns warnings.
std::vector<std::string> recover(const std::string& store, io::FileSystem& files);

}  // namespace atompack::atlas_store
