// Data sets of shards, as they are written.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_shard_writer(pybind11::module_& module);

}  // namespace atompack::bindings
