// Errors of the core as the exceptions of atompack_torch.errors.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace atompack::bindings {

void bind_errors(pybind11::module_& module);

// The text of an error, in which file names may be any bytes.
pybind11::str text_of(const std::string& bytes);

}  // namespace atompack::bindings
