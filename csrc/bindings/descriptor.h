// Descriptors, and forces from their derivatives.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_descriptor(pybind11::module_& module);

}  // namespace atompack::bindings
