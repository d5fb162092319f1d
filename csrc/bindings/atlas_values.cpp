#include "bindings/atlas_values.h"

#include <pybind11/stl.h>

#include <type_traits>

#include "bindings/errors.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using array_file::Timestamp;
using array_file::Type;

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

// Returns an extreme or a fill value; timestamps are numbers of nanoseconds.
template <typename Value>
py::object value_object(const std::optional<Value>& value, ColumnKind kind) {
  if (!value) return py::none();
  return std::visit(
      [&]<typename T>(const T& held) -> py::object {
        if constexpr (std::is_same_v<T, std::string>) {
          return string_object(held, kind);
        } else if constexpr (std::is_same_v<T, Timestamp>) {
          return py::int_(held.nanoseconds);
        } else {
          return py::cast(held);
        }
      },
      *value);
}

std::string type_name(Type type) { return type == Type::timestamp ? "timestamp_ns" : std::string(name_of(type)); }

Type type_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Type::timestamp); ++i) {
    if (type_name(static_cast<Type>(i)) == name) return static_cast<Type>(i);
  }
  throw py::value_error(cat("dtype: ", name, " is not a type of arrays"));
}

array_file::OwnedFill fill_of(Type type, const py::object& value) {
  if (type == Type::timestamp) return Timestamp{value.cast<int64_t>()};
  if (type == Type::string || type == Type::binary) return value.cast<std::string>();
  if (type == Type::float32 || type == Type::float64) return value.cast<double>();
  if (type >= Type::uint8 && type <= Type::uint64) return value.cast<uint64_t>();
  return value.cast<int64_t>();
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

py::tuple describe(const array_file::ArrayDefinition& array) {
  py::list names;
  for (const std::string& name : array.dimension_names) names.append(str_from_bytes(name));
  py::list codecs;
  for (const std::string& codec : array.codecs) codecs.append(str_from_bytes(codec));
  return py::make_tuple(type_name(array.type), array.shape, array.chunk_shape, names,
                        value_object(array.fill, ColumnKind::text), codecs);
}

array_file::ArrayDefinition definition_of(const std::string& name, const std::string& dtype,
                                          const std::vector<uint64_t>& shape,
                                          const std::optional<std::vector<std::string>>& dimension_names,
                                          const std::optional<std::vector<uint64_t>>& chunk_shape,
                                          const py::object& fill_value) {
  array_file::ArrayDefinition definition{.name = name, .type = type_named(dtype), .shape = shape};
  if (dimension_names) definition.dimension_names = *dimension_names;
  if (chunk_shape) definition.chunk_shape = *chunk_shape;
  if (!fill_value.is_none()) definition.fill = fill_of(definition.type, fill_value);
  return definition;
}

py::dict statistics_object(const array_file::Statistics& statistics) {
  py::dict all;
  for (const auto& [name, of_array] : statistics) {
    all[str_from_bytes(name)] =
        py::make_tuple(value_object(of_array.min, ColumnKind::bytes), value_object(of_array.max, ColumnKind::bytes),
                       of_array.n_null, of_array.n_rows);
  }
  return all;
}

}  // namespace atompack::bindings
