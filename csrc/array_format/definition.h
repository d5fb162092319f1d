// What an array is to be, as a writer is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "array_format/footer.h"

namespace atompack::array_format {

using OwnedFill = std::variant<bool, int64_t, uint64_t, double, std::string, Timestamp>;

struct ArrayDefinition {
  std::string name;
  Type type = Type::float32;
  std::vector<uint64_t> shape;
  std::vector<std::string> dimension_names;  // dim0, dim1 and so on unless there is one for each axis
  std::vector<uint64_t> chunk_shape;         // empty: one chunk
  std::optional<OwnedFill> fill;
};

}  // namespace atompack::array_format
