// Errors that name the file they are about.
#pragma once

#include <string>

#include "base/error.h"

namespace atompack {

// Does `action`; errors in data that do not name a file yet name this one.
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
