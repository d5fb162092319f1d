// Element types of NumPy and torch, and ours.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/numpy.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "model/array.h"

namespace atompack::bindings {

// One of NumPy's types, with those of its fields.
struct NumpyType {
  ElementType type = {};
  std::vector<ElementType> types = {};
  std::vector<ElementField> fields = {};
  std::deque<std::string> names = {};
  TypeTable table() const { return {types, fields}; }
};

// Nothing for types that are no plain data: those of other libraries, subarrays, texts of any length.
std::optional<NumpyType> numpy_type(const pybind11::dtype& dtype);

// In this machine's byte order. `type` is no bfloat16.
pybind11::dtype numpy_dtype(const TypeTable& table, const ElementType& type);

// Nothing for types that arrays do not have.
std::optional<ElementType> element_of(at::ScalarType type);

}  // namespace atompack::bindings
