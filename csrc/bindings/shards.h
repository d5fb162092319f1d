// Data sets of shards, as they are read: examples and batches of them.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_shards(pybind11::module_& module);

}  // namespace atompack::bindings
