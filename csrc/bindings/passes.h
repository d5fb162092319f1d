// Passes over whole files: statistics, verification, the use of space.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

// After bind_atp and bind_request, whose types it takes.
void bind_passes(pybind11::module_& module);

}  // namespace atompack::bindings
