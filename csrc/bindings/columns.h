// Columns of ATLAS stores as tensors.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_columns(pybind11::module_& module);

}  // namespace atompack::bindings
