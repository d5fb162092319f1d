// What lies in a folder.
#pragma once

#include <string>
#include <vector>

namespace atompack::io {

// The names of the folders in it, hidden ones and links to folders too, in the order of their bytes.
std::vector<std::string> folders_in(const std::string& path);

}  // namespace atompack::io
