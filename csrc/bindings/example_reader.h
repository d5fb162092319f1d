// Conversion of values of examples to Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "model/value.h"

namespace atompack::bindings {

// Decodes UTF-8; keeps lone surrogates, which are three bytes long.
pybind11::object to_str(std::string_view text);

// Converts a value; objects become dicts of their attributes. Arrays, scalars and tensors become tensors that own their
// memory, or NumPy arrays and scalars if torch does not have the type.
pybind11::object to_python(const Value& value);

}  // namespace atompack::bindings
