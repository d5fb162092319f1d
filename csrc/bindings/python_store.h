// Store whose objects are read by a thread of Python.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

// After the base of stores of objects.
void bind_python_store(pybind11::module_& module);

}  // namespace atompack::bindings
