// Staging: files are written under a hidden name and renamed into place.
#pragma once

#include <string>
#include <string_view>

namespace atompack::io {

// What the names of files and folders end in that do not have their own yet.
inline constexpr std::string_view kStagingSuffix = ".new";

// Hidden, beside the path, and the same for every writer of it: so its lock is the one that they meet.
std::string unpublished_path(const std::string& path);

// Throws IoError (EEXIST) where something is there; false where the file system cannot promise that.
bool rename_unless_taken(const std::string& from, const std::string& to);

}  // namespace atompack::io
