// Values of examples as Python's objects.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "model/value.h"

namespace atompack::bindings {

// UTF-8 as a string; lone surrogates in three bytes are kept.
pybind11::object to_str(std::string_view text);

// Arrays, scalars and tensors become tensors of their own memory; of types that torch does not have, arrays and scalars
// of NumPy.
pybind11::object to_python(const Value& value);

}  // namespace atompack::bindings
