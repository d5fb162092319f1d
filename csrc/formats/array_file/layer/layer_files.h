// Files of one array file: its base and sidecars.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atompack::array_file {

struct LayerFile {
  uint32_t number = 0;  // 0: the base
  std::string path;
};

// Lists all existing layers, oldest first; the base is included even if it does not exist. Throws IoError, FieldError
// if `path` is not a base path.
std::vector<LayerFile> layer_files(const std::string& path);

// The path of the sidecar with this number.
std::string sidecar_path(const std::string& base_path, uint32_t number);

}  // namespace atompack::array_file
