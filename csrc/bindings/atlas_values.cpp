#include "bindings/atlas_values.h"

#include <pybind11/stl.h>

#include <type_traits>

#include "bindings/errors.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_format::Timestamp;

py::object moment_object(Timestamp moment) {
  return py::module_::import("numpy").attr("datetime64")(moment.nanoseconds, "ns");
}

py::object extreme_object(const std::optional<array_format::Extreme>& extreme) {
  if (!extreme) return py::none();
  return std::visit(
      []<typename T>(const T& value) -> py::object {
        if constexpr (std::is_same_v<T, std::string>) {
          return py::bytes(value);
        } else if constexpr (std::is_same_v<T, Timestamp>) {
          return py::int_(value.nanoseconds);
        } else {
          return py::cast(value);
        }
      },
      *extreme);
}

}  // namespace

py::object text_object(const std::string& text, ColumnKind kind) {
  if (kind == ColumnKind::text) return text_of(text);
  return py::bytes(text);
}

py::object attribute_object(const atlas_store::AttributeValue& value) {
  return std::visit(
      []<typename T>(const T& held) -> py::object {
        if constexpr (std::is_same_v<T, std::string_view>) {
          return text_of(std::string(held));
        } else if constexpr (std::is_same_v<T, atlas_store::Moment>) {
          return moment_object(held.at);
        } else {
          return py::cast(held);
        }
      },
      value);
}

py::object fill_object(const array_format::Array& array) {
  if (!array.fill) return py::none();
  return std::visit(
      []<typename T>(const T& value) -> py::object {
        if constexpr (std::is_same_v<T, std::string_view>) {
          return text_of(std::string(value));
        } else if constexpr (std::is_same_v<T, Timestamp>) {
          return py::int_(value.nanoseconds);
        } else {
          return py::cast(value);
        }
      },
      *array.fill);
}

py::tuple describe(const array_format::Array& array, const std::vector<std::string>& dimension_names) {
  py::list names;
  for (const std::string& name : dimension_names) names.append(text_of(name));
  return py::make_tuple(type_name(array.type), array.shape, array.chunk_shape, names, fill_object(array));
}

std::string type_name(array_format::Type type) {
  return type == array_format::Type::timestamp ? "timestamp_ns" : std::string(name_of(type));
}

py::dict statistics_object(const array_format::Statistics& statistics) {
  py::dict all;
  for (const auto& [name, of_array] : statistics) {
    all[text_of(name)] =
        py::make_tuple(extreme_object(of_array.min), extreme_object(of_array.max), of_array.n_null, of_array.n_rows);
  }
  return all;
}

}  // namespace atompack::bindings
