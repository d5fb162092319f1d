// Writers of ATLAS stores and array files, and readers of array files.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_atlas_writer(pybind11::module_& module);

}  // namespace atompack::bindings
