// Context of errors about one array.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atompack::array_file {

// Runs `action`; data errors that do not name them yet get the array, unless it has no name, and the file.
template <typename Action>
auto in_array(const std::string& path, std::string_view array, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    if (!array.empty()) error.at_field(std::string(array));
    error.in_file(path);
    throw;
  }
}

}  // namespace atompack::array_file
