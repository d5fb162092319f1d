// Staging: files are written under a hidden name and renamed into place.
#pragma once

#include <string>
#include <string_view>

namespace atompack::io {

// Suffix of files and folders that are not published yet.
inline constexpr std::string_view kStagingSuffix = ".new";

// Hidden name beside the path, the same for every writer of it, so that its lock excludes them from each other.
std::string unpublished_path(const std::string& path);

// Throws IoError (EEXIST) if the target exists; returns false if the file system has no exclusive rename.
bool rename_exclusively(const std::string& from, const std::string& to);

// Makes each path name what the other one named, in one step. IoError (EINVAL) if the file system cannot do that.
void exchange_names(const std::string& one, const std::string& other);

}  // namespace atompack::io
