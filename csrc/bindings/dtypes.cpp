#include "bindings/dtypes.h"

#include <pybind11/pybind11.h>

#include "base/error.h"

namespace atompack::bindings {

DType dtype_named(const std::string& name) {
  for (int i = 0; i < kNumberOfDTypes; ++i) {
    if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  throw pybind11::value_error(cat("dtype: ", name, " is not a type of this library"));
}

}  // namespace atompack::bindings
