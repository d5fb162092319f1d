#include "bindings/atlas_values.h"

#include <pybind11/stl.h>

#include "bindings/errors.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::Timestamp;

py::object timestamp_object(Timestamp timestamp) {
  return py::module_::import("numpy").attr("datetime64")(timestamp.nanoseconds, "ns");
}

template <typename T>
py::object plain_object(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return str_from_bytes(std::string(value));
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return py::bytes(as_text(value));
  } else if constexpr (std::is_same_v<T, atlas_store::TimestampValue>) {
    return timestamp_object(value.at);
  } else if constexpr (std::is_same_v<T, Timestamp>) {
    return timestamp_object(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return py::bool_(value);
  } else if constexpr (std::is_integral_v<T>) {
    return py::int_(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return py::float_(value);
  } else {
    py::list list;
    for (const typename T::value_type item : value) list.append(plain_object(item));
    return list;
  }
}

// Returns str or bytes.
py::object string_object(const std::string& value, ColumnKind kind) {
  if (kind == ColumnKind::text) return str_from_bytes(value);
  return py::bytes(value);
}

py::object extreme_object(const std::optional<array_file::Extreme>& extreme) {
  const auto* const bytes = extreme ? std::get_if<std::string>(&*extreme) : nullptr;
  return bytes != nullptr ? py::object(py::bytes(*bytes)) : py::cast(extreme);
}

}  // namespace

py::object nested_strings(std::span<const std::string> strings, std::span<const int64_t> shape, ColumnKind kind) {
  if (shape.empty()) return string_object(strings[0], kind);
  const auto n = static_cast<size_t>(shape[0]), each = n == 0 ? 0 : strings.size() / n;
  py::list list(n);
  for (size_t i = 0; i < n; ++i) list[i] = nested_strings(strings.subspan(i * each, each), shape.subspan(1), kind);
  return list;
}

py::object attribute_object(const atlas_store::AttributeValue& value) {
  return std::visit([](const auto& held) { return plain_object(held); }, value);
}

py::dict attributes_object(std::span<const array_file::Attribute> attributes) {
  py::dict all;
  for (const auto& [key, value] : attributes) {
    all[str_from_bytes(key)] = std::visit([](const auto& held) { return plain_object(held); }, value);
  }
  return all;
}

atlas_store::AttributeValue attribute_value(py::handle value) {
  if (PyBool_Check(value.ptr())) return value.cast<bool>();
  if (PyLong_Check(value.ptr())) return value.cast<int64_t>();
  if (PyFloat_Check(value.ptr())) return value.cast<double>();
  if (PyUnicode_Check(value.ptr())) return value.cast<std::string_view>();
  return atlas_store::TimestampValue{{std::get<1>(value.cast<std::tuple<std::string, int64_t>>())}, {}};
}

py::dict statistics_object(const array_file::Statistics& statistics) {
  py::dict all;
  for (const auto& [name, of_array] : statistics) {
    all[str_from_bytes(name)] =
        py::make_tuple(extreme_object(of_array.min), extreme_object(of_array.max), of_array.n_null, of_array.n_rows);
  }
  return all;
}

}  // namespace atompack::bindings
