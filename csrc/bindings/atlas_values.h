// Conversion of values, attributes and definitions of arrays to and from Python objects.
#pragma once

#include <pybind11/pybind11.h>

#include <span>
#include <string>

#include "bindings/enum_casters.h"
#include "bindings/tuple_caster.h"
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

// Returns strings in row-major order as nested lists, or the only string if there are no axes.
pybind11::object nested_strings(std::span<const std::string> strings, std::span<const int64_t> shape, ColumnKind kind);

// Returns {name: (min, max, null_count, row_count)}.
pybind11::dict statistics_object(const array_file::Statistics& statistics);

// A definition is (name, dtype, shape, axis names, chunk shape, fill value, codecs).
ATOMPACK_TUPLE(array_file::ArrayDefinition, name, type, shape, dimension_names, chunk_shape, fill, codecs);

}  // namespace atompack::bindings

// Fill values and extremes: timestamps are numbers of nanoseconds.
template <>
struct pybind11::detail::type_caster<atompack::array_file::Timestamp> {
  PYBIND11_TYPE_CASTER(atompack::array_file::Timestamp, const_name("int"));

  bool load(handle, bool) { return false; }
  static handle cast(const atompack::array_file::Timestamp& timestamp, return_value_policy, handle) {
    return int_(timestamp.nanoseconds).release();
  }
};
