// Data sets of shards, read: without torch, so without their examples.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_shard_reader(pybind11::module_& module);

}  // namespace atompack::bindings
