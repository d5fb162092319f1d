// Type casters that the source files of the extension modules share, and the type of their registration functions.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/enum_casters.h"
#include "bindings/gil.h"
#include "bindings/path.h"
#include "bindings/tuple_caster.h"

namespace atompack::bindings {

namespace py = pybind11;
using namespace pybind11::literals;

// Each source file registers its part of a module.
using Bind = void(pybind11::module_&);
Bind bind_errors;

}  // namespace atompack::bindings
