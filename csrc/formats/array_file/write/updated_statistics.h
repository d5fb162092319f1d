// Update of statistics after a flush that changed some arrays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/array_file/read/reader.h"
#include "formats/array_file/read/statistics.h"
#include "io/file_system.h"

namespace atompack::array_file {

// An array that was written to.
struct ChangedArray {
  std::string name;
  // Summary of its chunks in the newest layer; nullopt: computed by reading them.
  std::optional<Summary> newest;
};

// Updates `list` for the changed arrays as `reader` has them now: entries are replaced, or appended. Arrays without
// chunks and unreadable arrays have no entry; entries of deleted arrays stay.
void update_statistics(const Reader& reader, const std::vector<ChangedArray>& changed, StatisticsList& list);

// Makes the statistics file true again after a writer died that published the layer with this number: computes those of
// the arrays in it and in later ones; of all arrays if there is no such layer any more. Removes the file if the layers
// cannot be read. Throws IoError.
void renew_statistics(const std::string& base_path, uint32_t number, uint64_t max_metadata_bytes,
                      io::FileSystem& files);

}  // namespace atompack::array_file
