// Base of an array file, whose lock covers all layers.
#pragma once

#include <memory>
#include <string>

#include "io/file_system.h"

namespace atompack::array_file {

// Locks the base after creating it, without arrays, if it does not exist. Throws FieldError if `path` is not a base
// path, CorruptFileError if there are sidecars without a base.
std::unique_ptr<io::WritableFile> lock_base(io::FileSystem& files, const std::string& path);

}  // namespace atompack::array_file
