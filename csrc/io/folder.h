// Listing of folders, and making them durable.
#pragma once

#include <string>
#include <vector>

namespace atompack::io {

// The names of the folders in it, hidden ones and links to folders too, in the order of their bytes.
std::vector<std::string> folders_in(const std::string& path);
// Those of everything in it.
std::vector<std::string> names_in(const std::string& path);

// Removes a folder in which nothing is; any other stays.
void remove_if_empty(const std::string& path);

// The names in a folder as they are now are durable.
void sync_folder(const std::string& path);
// The same for the folder that this path lies in.
void sync_folder_of(const std::string& path);

}  // namespace atompack::io
