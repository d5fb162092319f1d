// Collators and the tensors they make.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_collate(pybind11::module_& module);

}  // namespace atompack::bindings
