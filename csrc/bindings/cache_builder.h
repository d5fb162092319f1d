// Building of HDF5 feature caches.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_cache_builder(pybind11::module_& module);

}  // namespace atompack::bindings
