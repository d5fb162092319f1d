// The files that an array file consists of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace atompack::array_file {

struct LayerFile {
  uint32_t number = 0;  // 0: the base
  std::string path;
};

// All layers that there are, oldest first; the base whether it is there or not. Throws IoError, FieldError if `path` is
// no path of a base.
std::vector<LayerFile> layer_files(const std::string& path);

// The path of the sidecar of this number.
std::string sidecar_path(const std::string& base_path, uint32_t number);

}  // namespace atompack::array_file
