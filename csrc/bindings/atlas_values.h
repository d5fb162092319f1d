// Values, attributes and descriptions of arrays as Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/definition.h"
#include "formats/atlas_store/metadata/attribute.h"
#include "model/column_source.h"

namespace atompack::bindings {

// bool, int, float, str, or numpy.datetime64 for moments.
pybind11::object attribute_object(const atlas_store::AttributeValue& value);

// The value that set_attr() was given: bool, int, float, str, or the nanoseconds of a moment as ("ns", int). Texts are
// views of `value`.
atlas_store::AttributeValue attribute_value(pybind11::handle value);

// (dtype, shape, chunk shape, names of the axes, fill value): None, int, float or str
pybind11::tuple describe(const array_file::ArrayDefinition& array);

// The reverse; chunk shape, names and fill value may be None.
array_file::ArrayDefinition definition_of(const std::string& name, const std::string& dtype,
                                          const std::vector<uint64_t>& shape,
                                          const std::optional<std::vector<std::string>>& dimension_names,
                                          const std::optional<std::vector<uint64_t>>& chunk_shape,
                                          const pybind11::object& fill_value);

// Texts in row-major order as lists in lists; without axes the one text itself.
pybind11::object nested_texts(std::span<const std::string> texts, std::span<const int64_t> shape, ColumnKind kind);

// name -> (min, max, null_count, row_count)
pybind11::dict statistics_object(const array_file::Statistics& statistics);

}  // namespace atompack::bindings
