// Numbers of open files, by which caches tell them apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "io/file.h"

namespace atompack::array_file {

// Returns a number of this process that no other file has had. Files of equal version have the same one as long as one
// of the results is alive: its owner has the file open, so no other file can get its inode. nullopt: shares none.
std::shared_ptr<const uint64_t> file_number(const std::optional<io::FileVersion>& version);

}  // namespace atompack::array_file
