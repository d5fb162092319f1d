// Files of one array file: its base and sidecars.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "io/location.h"

namespace atompack::array_file {

struct LayerFile {
  uint32_t number = 0;  // 0: the base
  io::Location file;

  const std::string& path() const { return file.path(); }
};

// The order of layers; other programs may write two with the same number.
inline bool is_older(const LayerFile& a, const LayerFile& b) {
  return std::tie(a.number, a.path()) < std::tie(b.number, b.path());
}

// Throws FieldError if `path` is not that of a base.
void check_base_path(const std::string& path);

// Lists all existing layers, oldest first; the base is included even if it does not exist. Throws IoError, FieldError
// if `base` has not the path of one. In a remote store that cannot list folders, sidecars are looked up by number,
// until four in a row do not exist.
std::vector<LayerFile> layer_files(const io::Location& base);
// The same without the base if it does not exist.
std::vector<LayerFile> existing_layers(const io::Location& base);

// The path of the sidecar with this number.
std::string sidecar_path(const std::string& base_path, uint32_t number);

}  // namespace atompack::array_file
