// ATLAS stores, read.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_atlas_reader(pybind11::module_& module);

}  // namespace atompack::bindings
