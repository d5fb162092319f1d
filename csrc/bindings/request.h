// The request of a batch, as Python makes it.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_request(pybind11::module_& module);

}  // namespace atompack::bindings
