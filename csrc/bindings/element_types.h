// Conversion between NumPy's element types and this library.
#pragma once

#include <pybind11/numpy.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "model/value.h"

namespace atompack::bindings {

// Type of NumPy and the types of its fields.
struct NumpyType {
  ElementType type = {};
  std::vector<ElementType> types = {};
  std::vector<ElementField> fields = {};
  std::deque<std::string> names = {};
  TypeTable table() const { return {types, fields}; }
};

// Returns nullopt for types that are not plain data: those of other libraries, subarrays, strings of variable length.
std::optional<NumpyType> numpy_type(const pybind11::dtype& dtype);

// Returns the type in native byte order. `type` must not be bfloat16.
pybind11::dtype numpy_dtype(const TypeTable& table, const ElementType& type);

// Returns a class of NumPy, which `kept`, a static object, holds from the first call on.
const pybind11::object& numpy_class(const char* name, pybind11::object& kept);

}  // namespace atompack::bindings
