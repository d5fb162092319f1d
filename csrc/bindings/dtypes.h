// Element types by their names.
#pragma once

#include <string>

#include "base/dtype.h"

namespace atompack::bindings {

// As torch names them. Throws ValueError.
DType dtype_named(const std::string& name);

}  // namespace atompack::bindings
