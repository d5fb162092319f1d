#include "bindings/indices.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <pybind11/numpy.h>

#include "base/error.h"
#include "bindings/bindings.h"
#include "bindings/element_types.h"
#include "bindings/tensor_caster.h"
#include "collate/indices.h"
#include "collate/torch_threads.h"
#include "plan/random_order.h"

namespace atompack::bindings {
namespace {

using plan::SubsetView;
using SourceNumbers = std::vector<int64_t>;

[[noreturn]] void refuse(const std::string& got) { throw TypeError(cat("indices: expected integers, got ", got)); }

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

at::Tensor on_cpu(const at::Tensor& tensor) {
  collate::check_has_values(tensor);
  return tensor.is_cpu() ? tensor : without_gil([&] { return tensor.to(at::kCPU); });
}

bool is_numpy_bool(py::handle item) {
  static auto& type = *new py::object;  // never destroyed: the interpreter may have ended before
  return reinterpret_cast<PyObject*>(Py_TYPE(item.ptr())) == numpy_class("bool_", type).ptr();
}

// Returns the value of a bool of Python, NumPy or torch; nullopt for other objects.
std::optional<bool> flag_of(py::handle item) {
  if (PyBool_Check(item.ptr())) return item.ptr() == Py_True;
  if (is_numpy_bool(item)) return PyObject_IsTrue(item.ptr()) == 1;
  if (!is_tensor(item) || as_tensor(item).scalar_type() != at::kBool) return std::nullopt;
  return collate::flag_of(on_cpu(as_tensor(item)));
}

int64_t number_of_int(const SubsetView& subset, py::handle number) {
  int overflow = 0;
  const long long index = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) subset.refuse("of more than 64 bits");
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return subset.number(index);
}

template <typename T>
using Plain = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <typename T>
Plain<T> converted(const py::array& array) {
  const auto made = Plain<T>::ensure(array);
  if (!made) throw py::error_already_set();
  return made;
}

template <typename T>
std::span<const T> values_of(const Plain<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

SourceNumbers numbers_of_sequence(const SubsetView& subset, py::handle sequence) {
  PyObject* const object = sequence.ptr();
  const bool is_string = PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object);
  if (is_string || PySequence_Check(object) == 0) refuse(type_name(sequence));
  SourceNumbers numbers;
  if (PyList_Check(object) || PyTuple_Check(object)) numbers.reserve(static_cast<size_t>(PySequence_Size(object)));
  bool is_mask = false;
  int64_t place = 0;
  for (const py::handle item : sequence) {
    const bool is_int = PyLong_CheckExact(item.ptr());
    const std::optional<bool> flag = is_int ? std::nullopt : flag_of(item);
    if (place == 0) is_mask = flag.has_value();
    if (is_mask != flag.has_value()) refuse("a list of bools and numbers (a mask holds bools alone)");
    if (!flag) {
      numbers.push_back(is_int ? number_of_int(subset, item) : number_of(subset, item));
    } else if (*flag && place < subset.size()) {
      numbers.push_back(subset.number(place));
    }
    ++place;
  }
  if (is_mask) subset.check_mask(place);
  return numbers;
}

SourceNumbers numbers_of_array(const SubsetView& subset, const py::array& array) {
  if (py::hasattr(array, "filled")) refuse("a masked array");
  if (array.ndim() != 1) refuse(cat("an array of ", array.ndim(), " dimensions (one is)"));
  SourceNumbers numbers;
  switch (array.dtype().kind()) {
    case 'b':
      subset.append_masked(values_of(converted<bool>(array)), numbers);
      break;
    case 'u':
      subset.append(values_of(converted<uint64_t>(array)), numbers);
      break;
    case 'i':
      subset.append(values_of(converted<int64_t>(array)), numbers);
      break;
    case 'O':
      return numbers_of_sequence(subset, array);
    default:  // np.array([]) holds floats
      if (array.size() != 0) refuse(py::str(array.dtype()).cast<std::string>());
  }
  return numbers;
}

py::array_t<int64_t> order_at(const plan::RandomOrder& order, const Plain<int64_t>& positions) {
  py::array_t<int64_t> numbers(positions.size());
  const std::span from = values_of(positions);
  const std::span to(numbers.mutable_data(), from.size());
  without_gil([&] { order.at(from, to, static_cast<unsigned>(collate::usable_threads(0))); });
  return numbers;
}

py::array_t<int64_t> order_between(const plan::RandomOrder& order, int64_t first, int64_t last) {
  py::array_t<int64_t> numbers(std::max<int64_t>(last - first, 0));
  const std::span to(numbers.mutable_data(), static_cast<size_t>(numbers.size()));
  without_gil([&] { order.from(first, to, static_cast<unsigned>(collate::usable_threads(0))); });
  return numbers;
}

py::object resolve(const py::object& indices, int64_t size, const std::optional<at::Tensor>& selection,
                   const std::string& item) {
  const SourceNumbers numbers = numbers_of(collate::subset_view(size, selection, item), indices);
  const at::Tensor tensor = at::empty({std::ssize(numbers)}, at::TensorOptions(at::kLong));
  std::ranges::copy(numbers, tensor.mutable_data_ptr<int64_t>());
  return py::cast(tensor);
}

int64_t resolve_one(py::handle index, int64_t size, const std::optional<at::Tensor>& selection,
                    const std::string& item) {
  return number_of(collate::subset_view(size, selection, item), index);
}

}  // namespace

int64_t number_of(const SubsetView& subset, py::handle item) {
  if (PyLong_CheckExact(item.ptr())) return number_of_int(subset, item);
  if (flag_of(item)) refuse("a bool (a mask is a list or tensor of them)");
  if (is_tensor(item)) return collate::number_of(subset, on_cpu(as_tensor(item)));
  if (PyIndex_Check(item.ptr()) == 0) refuse(type_name(item));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!number) throw py::error_already_set();
  return number_of_int(subset, number);
}

SourceNumbers numbers_of(const SubsetView& subset, const py::object& selected) {
  if (PyList_Check(selected.ptr()) || PyTuple_Check(selected.ptr())) return numbers_of_sequence(subset, selected);
  if (is_tensor(selected)) return collate::numbers_of(subset, on_cpu(as_tensor(selected)));
  if (py::isinstance<py::array>(selected)) return numbers_of_array(subset, selected);
  // Columns of data frames are indexed by label; their arrays are indexed by position.
  if (py::hasattr(selected, "__array__")) {
    return numbers_of_array(subset, py::module_::import("numpy").attr("asarray")(selected));
  }
  return numbers_of_sequence(subset, selected);
}

void bind_indices(py::module_& module) {
  py::class_<plan::RandomOrder>(module, "NativeOrder")
      .def(py::init<uint64_t, uint64_t, uint64_t, const plan::RandomOrder::Keys&>(), "n"_a, "n_left"_a, "n_right"_a,
           "keys"_a)
      .def("at", &order_at, "positions"_a)
      .def("between", &order_between, "first"_a, "last"_a);
  module.def("resolve_indices", &resolve, "indices"_a, "size"_a, "selection"_a, "item"_a);
  module.def("resolve_index", &resolve_one, "index"_a, "size"_a, "selection"_a, "item"_a);
}

}  // namespace atompack::bindings
