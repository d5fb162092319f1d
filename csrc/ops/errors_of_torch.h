// Errors of operators.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "base/error.h"

namespace atompack::collate {

// Runs the body; errors in values become those of torch, which Python sees as ValueError.
template <typename Body>
auto with_errors_of_torch(const Body& body) {
  try {
    return body();
  } catch (const DataError& error) {
    C10_THROW_ERROR(ValueError, std::string(error.what()));
  }
}

}  // namespace atompack::collate
