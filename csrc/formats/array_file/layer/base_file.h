// The base of an array file, whose lock is that of all layers.
#pragma once

#include <memory>
#include <string>

#include "io/file_system.h"

namespace atompack::array_file {

// Locks the base, which is made first, without arrays, where there is none. Throws FieldError if `path` is no path of a
// base, CorruptFileError if there are sidecars without one.
std::unique_ptr<io::WritableFile> lock_base(io::FileSystem& files, const std::string& path);

}  // namespace atompack::array_file
