// Feature caches in HDF5 files.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_torch_cache(pybind11::module_& module);

}  // namespace atompack::bindings
