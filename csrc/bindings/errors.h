// Errors of the core as the exceptions of atompack_torch.errors.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_errors(pybind11::module_& module);

}  // namespace atompack::bindings
