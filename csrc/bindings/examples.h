// Examples of shards as Python's objects, and batches of them.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_examples(pybind11::module_& module);

}  // namespace atompack::bindings
