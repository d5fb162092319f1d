#include "bindings/example_reader.h"

#include <ATen/ops/empty.h>

#include "bindings/bytes.h"
#include "bindings/element_types.h"
#include "bindings/tensor_caster.h"
#include "collate/arena.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;
using namespace pybind11::literals;

py::object big_integer(Bytes bytes) {
  const auto type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyLong_Type));
  return type.attr("from_bytes")(to_bytes(bytes), "little", "signed"_a = true);
}

std::vector<int64_t> sizes_of(const Array& array) { return {array.shape.begin(), array.shape.end()}; }

py::object tensor_of(const Array& array, DType dtype) {
  const at::Tensor tensor = at::empty(sizes_of(array), at::TensorOptions(collate::scalar_type_of(dtype)));
  copy_out(array, {static_cast<std::byte*>(tensor.mutable_data_ptr()), array.bytes()});
  if (array.requires_grad) tensor.set_requires_grad(true);
  return py::cast(tensor);
}

// Assigns objects to an existing array one by one: from nested lists NumPy would make an array of more axes.
py::object object_array(const Value& value) {
  const py::array array(py::dtype("O"), sizes_of(value.array()), nullptr);
  const py::object flat = array.attr("reshape")(-1);
  for (size_t i = 0; i < value.size(); ++i) flat[py::int_(i)] = to_python(value.item(i));
  return array;
}

py::object numpy_array(const Array& array) {
  const py::array made(numpy_dtype(array.table, array.type), sizes_of(array), nullptr);
  copy_out(array, {static_cast<std::byte*>(const_cast<void*>(made.data())), array.bytes()});
  return made;
}

py::object array_of(const Value& value) {
  const Array array = value.array();
  if (array.type.kind == ElementKind::object) return object_array(value);
  if (const std::optional<DType> dtype = dtype_of(array.type)) return tensor_of(array, *dtype);
  const py::object made = numpy_array(array);
  return value.kind() == Kind::scalar ? made[py::tuple()] : made;
}

template <typename Sequence>
py::object sequence_of(const Value& value) {
  Sequence items(value.size());
  for (size_t i = 0; i < value.size(); ++i) items[i] = to_python(value.item(i));
  return items;
}

// Scalars become those of NumPy, which compare by value: equal tensors would be different keys.
py::object key_of(const Value& key) {
  if (key.kind() == Kind::scalar) return numpy_array(key.array())[py::tuple()];
  if (key.kind() != Kind::tuple) return to_python(key);
  py::tuple items(key.size());
  for (size_t i = 0; i < key.size(); ++i) items[i] = key_of(key.item(i));
  return items;
}

py::object dict_of(const Value& value) {
  py::dict dict;
  for (size_t i = 0; i < value.size(); ++i) dict[key_of(value.key(i))] = to_python(value.value(i));
  return dict;
}

}  // namespace

py::object to_str(std::string_view text) {
  auto decoded = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
  if (!decoded) throw py::error_already_set();
  return decoded;
}

py::object to_python(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return py::none();
    case Kind::boolean:
      return py::bool_(value.boolean());
    case Kind::integer:
      return py::int_(value.integer());
    case Kind::big_integer:
      return big_integer(value.big_integer());
    case Kind::real:
      return py::float_(value.real());
    case Kind::text:
      return to_str(value.text());
    case Kind::bytes:
      return to_bytes(value.bytes());
    case Kind::list:
      return sequence_of<py::list>(value);
    case Kind::tuple:
      return sequence_of<py::tuple>(value);
    case Kind::dict:
    case Kind::record:
      return dict_of(value);
    case Kind::array:
    case Kind::scalar:
    case Kind::tensor:
      return array_of(value);
    case Kind::dtype:
      return numpy_dtype(value.table(), value.dtype());
  }
  throw InternalError("a value of an unknown kind");
}

}  // namespace atompack::bindings
