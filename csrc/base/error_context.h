// Adds the file's path to errors about its data.
#pragma once

#include <string>

#include "base/error.h"

namespace atompack {

// Runs `action`; data errors that do not name a file yet get this path.
template <typename Action>
auto in_file(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (DataError& error) {
    error.in_file(path);
    throw;
  }
}

}  // namespace atompack
