// Conversion of values, attributes and definitions of arrays to and from Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/array_file/read/statistics.h"
#include "formats/array_file/write/definition.h"
#include "formats/atlas_store/metadata/metadata.h"
#include "model/column_source.h"

namespace atompack::bindings {

// Returns bool, int, float, str, bytes, a list of them, or numpy.datetime64 for timestamps.
pybind11::object attribute_object(const atlas_store::AttributeValue& value);
// Returns {key: value} in the same types.
pybind11::dict attributes_object(std::span<const array_file::Attribute> attributes);

// Converts bool, int, float, str, or ("ns", int) for a timestamp in nanoseconds. Strings are views of `value`.
atlas_store::AttributeValue attribute_value(pybind11::handle value);

// Returns (dtype, shape, chunk shape, axis names, fill value, codecs); the fill value is None, int, float or str.
pybind11::tuple describe(const array_file::ArrayDefinition& array);

// Reverse of describe(), without codecs; chunk shape, names and fill value may be None.
array_file::ArrayDefinition definition_of(const std::string& name, const std::string& dtype,
                                          const std::vector<uint64_t>& shape,
                                          const std::optional<std::vector<std::string>>& dimension_names,
                                          const std::optional<std::vector<uint64_t>>& chunk_shape,
                                          const pybind11::object& fill_value);

// Returns strings in row-major order as nested lists, or the only string if there are no axes.
pybind11::object nested_strings(std::span<const std::string> strings, std::span<const int64_t> shape, ColumnKind kind);

// Returns {name: (min, max, null_count, row_count)}.
pybind11::dict statistics_object(const array_file::Statistics& statistics);

}  // namespace atompack::bindings
