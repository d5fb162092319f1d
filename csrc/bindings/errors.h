// Errors of the core as the exceptions of atompack_torch.errors.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace atompack::bindings {

// The text of an error, in which file names may be any bytes.
pybind11::str text_of(std::string_view bytes);

}  // namespace atompack::bindings
