// Values, attributes and descriptions of arrays as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "array_format/array.h"
#include "array_format/statistics.h"
#include "atlas_store/attribute.h"
#include "base/column_source.h"

namespace atompack::bindings {

// str or bytes.
pybind11::object text_object(const std::string& text, ColumnKind kind);

// bool, int, float, str, or numpy.datetime64 for moments.
pybind11::object attribute_object(const atlas_store::AttributeValue& value);

// None, int, float, str.
pybind11::object fill_object(const array_format::Array& array);

// (dtype, shape, chunk shape, names of the axes, fill value)
pybind11::tuple describe(const array_format::Array& array, const std::vector<std::string>& dimension_names);

// NumPy's name of a type; "timestamp_ns", "string", "binary".
std::string type_name(array_format::Type type);

// name -> (min, max, null_count, row_count)
pybind11::dict statistics_object(const array_format::Statistics& statistics);

}  // namespace atompack::bindings
