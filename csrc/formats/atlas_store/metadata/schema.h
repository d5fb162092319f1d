// Schema of one array in the metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "formats/array_file/layer/footer.h"

namespace atompack::atlas_store {

// Element type of an array, with the lists that wrap each value.
struct DataType {
  array_file::Type element = array_file::Type::boolean;
  std::vector<std::optional<uint64_t>> lists;  // outermost first; with a size if all have the same length

  // The type in the array's own file.
  array_file::Type type() const {
    if (lists.empty()) return element;
    return lists.front() ? array_file::Type::fixed_list : array_file::Type::list;
  }
  bool operator==(const DataType&) const = default;
};

struct Schema {
  DataType dtype;
  std::vector<uint64_t> shape, chunk_shape;
  std::vector<std::string> dimension_names;  // as given, not necessarily one per axis
  codec::Codec codec = codec::Codec::zstd;   // of the store when the array was defined

  bool operator==(const Schema&) const = default;
};

}  // namespace atompack::atlas_store
