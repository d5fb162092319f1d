// The filters of a dataset's chunks: FORMAT.md#filters.
#pragma once

#include <string>
#include <vector>

#include "formats/torch_cache/hdf5/metadata_cursor.h"

namespace atompack::torch_cache {

struct Filter {
  static constexpr int kDeflate = 1, kShuffle = 2;
  int id = 0;
  std::string label;  // empty if it has none
  std::vector<uint32_t> parameters;
};

// In the order in which they were applied.
std::vector<Filter> read_filters(MetadataCursor cursor);

}  // namespace atompack::torch_cache
