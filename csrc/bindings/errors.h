// Translation of errors of the core to the exceptions of atompack_torch.errors.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace atompack::bindings {

// Decodes UTF-8 with surrogate escapes: error messages and names may contain file names of any bytes.
pybind11::str str_from_bytes(std::string_view bytes);

}  // namespace atompack::bindings
