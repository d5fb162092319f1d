// Writers of .atp files.
#pragma once

#include <pybind11/pybind11.h>

namespace atompack::bindings {

void bind_atp_writer(pybind11::module_& module);

}  // namespace atompack::bindings
