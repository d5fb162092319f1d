// Names of dataset and array in errors of a call.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace atompack::atlas_store {

// Adds the arguments of the call to errors.
template <typename Action>
auto with_context(const std::string& path, std::string_view dataset, std::string_view array, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    if (!dataset.empty()) error.at_field(array.empty() ? std::string(dataset) : cat(dataset, '/', array));
    error.in_file(path);
    throw;
  }
}

}  // namespace atompack::atlas_store
