// Listing of folders, and making their names durable.
#pragma once

#include <string>
#include <vector>

namespace atompack::io {

// Names of the folders in this one, including hidden ones and links to folders, in byte order.
std::vector<std::string> folders_in(const std::string& path);
// Names of all entries, in byte order.
std::vector<std::string> names_in(const std::string& path);

// Removes a folder if it is empty.
void remove_if_empty(const std::string& path);

// Makes the current names in a folder durable.
void sync_folder(const std::string& path);
// Makes the current names in the parent folder of this path durable.
void sync_folder_of(const std::string& path);

}  // namespace atompack::io
