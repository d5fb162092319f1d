// Values of examples as Python's objects.
#pragma once

#include <pybind11/pybind11.h>

#include "model/value.h"

namespace atompack::bindings {

// Arrays, scalars and tensors become tensors of their own memory; of types that torch does not have, arrays and scalars
// of NumPy.
pybind11::object to_python(const Value& value);

}  // namespace atompack::bindings
