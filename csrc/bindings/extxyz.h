// Extended XYZ files as NumPy arrays, and back.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_extxyz(pybind11::module_& module);

}  // namespace atompack::bindings
