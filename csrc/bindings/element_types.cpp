#include "bindings/element_types.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

constexpr size_t kMaxFields = 1024;  // that readers accept

bool is_date(ElementKind kind) { return kind == ElementKind::datetime || kind == ElementKind::timedelta; }

// Adds the fields of a type before the type itself, so that indices in ElementField are valid.
bool add_fields(NumpyType& all, ElementType& type, const py::dtype& dtype);

std::optional<ElementType> element(NumpyType& all, const py::dtype& dtype) {
  const std::optional<ElementKind> kind = kind_of(dtype.kind());
  if (!kind || !dtype.attr("subdtype").is_none()) return std::nullopt;
  ElementType type{
      .kind = *kind, .big_endian = dtype.byteorder() == '>', .item_bytes = static_cast<uint32_t>(dtype.itemsize())};
  if (type.kind == ElementKind::raw) {
    const bool is_void = dtype.attr("type").is(py::module_::import("numpy").attr("void"));
    if (!is_void || !add_fields(all, type, dtype)) return std::nullopt;
  }
  if (is_date(type.kind)) {
    const py::tuple unit = py::module_::import("numpy").attr("datetime_data")(dtype);
    type.unit = all.names.emplace_back(unit[0].cast<std::string>());
    type.unit_count = unit[1].cast<uint32_t>();
  }
  return type;
}

bool add_fields(NumpyType& all, ElementType& type, const py::dtype& dtype) {
  if (!dtype.has_fields()) return true;
  const py::dict described = dtype.attr("fields");
  std::vector<ElementField> fields;
  for (const py::handle name : dtype.attr("names")) {
    const py::tuple field = described[name];
    const std::optional<ElementType> inner = element(all, field[0].cast<py::dtype>());
    if (!inner || inner->kind == ElementKind::object || field.size() != 2) return false;
    all.types.push_back(*inner);
    fields.push_back({all.names.emplace_back(name.cast<std::string>()), static_cast<uint32_t>(all.types.size() - 1),
                      field[1].cast<uint32_t>()});
  }
  if (fields.size() > kMaxFields || !are_apart(all.table(), fields)) return false;
  type.first_field = static_cast<uint32_t>(all.fields.size());
  type.n_fields = static_cast<uint32_t>(fields.size());
  all.fields.insert(all.fields.end(), fields.begin(), fields.end());
  return true;
}

py::dtype dtype_of_fields(const TypeTable& table, const ElementType& type) {
  py::list names, formats, offsets;
  for (const ElementField& field : table.fields.subspan(type.first_field, type.n_fields)) {
    names.append(py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(field.name.data(), static_cast<Py_ssize_t>(field.name.size()), "surrogatepass")));
    formats.append(numpy_dtype(table, table.types[field.type]));
    offsets.append(field.offset);
  }
  return py::dtype(names, formats, offsets, type.item_bytes);
}

}  // namespace

std::optional<NumpyType> numpy_type(const py::dtype& dtype) {
  NumpyType all;
  const std::optional<ElementType> type = element(all, dtype);
  if (!type) return std::nullopt;
  all.type = *type;
  return all;
}

const py::object& numpy_class(const char* name, py::object& kept) {
  if (!kept) kept = py::module_::import("numpy").attr(name);
  return kept;
}

py::dtype numpy_dtype(const TypeTable& table, const ElementType& type) {
  if (type.n_fields > 0) return dtype_of_fields(table, type);
  ElementType native = type;
  native.big_endian = false;
  return py::dtype(type_text(table, native));
}

}  // namespace atompack::bindings
