#include "bindings/indices.h"

#include <ATen/ops/empty.h>
#include <pybind11/numpy.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "bindings/unlocked.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

[[noreturn]] void refuse(const std::string& got) { throw py::type_error(cat("indices: expected integers, got ", got)); }

[[noreturn]] void refuse_mixture() { refuse("a list of bools and numbers (a mask holds bools alone)"); }

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

std::string shape_of(const at::Tensor& tensor) { return cat("shape ", tensor.sizes()); }

// Refuses tensors without plain values in memory.
void check_memory(const at::Tensor& tensor) {
  if (tensor.is_nested()) refuse("a nested tensor");
  if (tensor.layout() != at::kStrided) refuse(cat("a tensor of layout ", tensor.layout()));
  if (tensor.is_quantized()) refuse("a quantized tensor");
  if (tensor.is_meta()) refuse("a meta tensor, which has no values");
  if (!tensor.has_storage() || tensor.unsafeGetTensorImpl()->is_python_dispatch()) {
    refuse("a tensor without values of its own");
  }
}

// Returns the tensor, contiguous on the CPU.
at::Tensor in_host_memory(const at::Tensor& tensor) {
  const at::Tensor on_cpu = tensor.is_cpu() ? tensor : without_gil([&] { return tensor.to(at::kCPU); });
  return on_cpu.resolve_neg().contiguous();
}

bool is_numpy_bool(py::handle item) {
  static auto& type = *new py::object;  // never destroyed: the interpreter may have ended before
  if (!type) type = py::module_::import("numpy").attr("bool_");
  return reinterpret_cast<PyObject*>(Py_TYPE(item.ptr())) == type.ptr();
}

// Returns the value of a bool of Python, NumPy or torch; nullopt for other objects.
std::optional<bool> flag_of(py::handle item) {
  if (PyBool_Check(item.ptr())) return item.ptr() == Py_True;
  if (is_numpy_bool(item)) return PyObject_IsTrue(item.ptr()) == 1;
  if (!is_tensor(item)) return std::nullopt;
  const at::Tensor& tensor = as_tensor(item);
  if (tensor.scalar_type() != at::kBool) return std::nullopt;
  check_memory(tensor);
  if (tensor.dim() != 0) refuse(cat("a tensor of ", shape_of(tensor), " in a list"));
  return *in_host_memory(tensor).const_data_ptr<bool>();
}

py::object resolve(const py::object& indices, int64_t size, const std::optional<at::Tensor>& selection,
                   const std::string& item) {
  const std::vector<int64_t> numbers = SubsetView(size, selection, item).numbers(indices);
  const at::Tensor tensor = at::empty({std::ssize(numbers)}, at::TensorOptions(at::kLong));
  std::ranges::copy(numbers, tensor.mutable_data_ptr<int64_t>());
  return py::cast(tensor);
}

int64_t resolve_one(py::handle index, int64_t size, const std::optional<at::Tensor>& selection,
                    const std::string& item) {
  return SubsetView(size, selection, item).number(index);
}

}  // namespace

void check_selection(const at::Tensor& selection) {
  if (!selection.is_cpu() || selection.scalar_type() != at::kLong || selection.dim() != 1 ||
      !selection.is_contiguous() || selection.is_neg()) {
    throw InternalError("a selection is not contiguous int64 on the CPU");
  }
}

SubsetView::SubsetView(int64_t size, const std::optional<at::Tensor>& selection, std::string item)
    : size_(size), item_(std::move(item)) {
  if (!selection) return;
  check_selection(*selection);
  size_ = selection->numel();
  numbers_ = selection->const_data_ptr<int64_t>();
}

void SubsetView::refuse_number(const std::string& number) const {
  throw py::index_error(cat(item_, " ", number, " is out of range for a data set of ", size_));
}

int64_t SubsetView::checked(int64_t index) const {
  if (index < -size_ || index >= size_) refuse_number(std::to_string(index));
  return in_source(index < 0 ? index + size_ : index);
}

int64_t SubsetView::checked_long(PyObject* number) const {
  int overflow = 0;
  const long long index = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) refuse_number("of more than 64 bits");
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return checked(index);
}

void SubsetView::check_mask(int64_t length) const {
  if (length == size_) return;
  throw py::index_error(cat("indices: expected a mask of ", size_, " bools, one for each ", item_, ", got ", length));
}

template <typename Integer>
void SubsetView::add_numbers(const Integer* first, int64_t n, Numbers& all) const {
  all.reserve(all.size() + static_cast<size_t>(n));
  for (const Integer* index = first; index != first + n; ++index) {
    if constexpr (std::is_same_v<Integer, uint64_t>) {
      if (*index > std::numeric_limits<int64_t>::max()) refuse_number(std::to_string(*index));
    }
    all.push_back(checked(static_cast<int64_t>(*index)));
  }
}

void SubsetView::add_mask(const bool* first, int64_t n, Numbers& all) const {
  check_mask(n);
  for (int64_t place = 0; place < n; ++place) {
    if (first[place]) all.push_back(in_source(place));
  }
}

void SubsetView::add_integers(const at::Tensor& tensor, Numbers& all) const {
  const at::Tensor host = in_host_memory(tensor);
  const auto add = [&]<typename Integer>(const Integer* first) { add_numbers(first, host.numel(), all); };
  switch (host.scalar_type()) {
    case at::kLong:
      return add(host.const_data_ptr<int64_t>());
    case at::kInt:
      return add(host.const_data_ptr<int32_t>());
    case at::kShort:
      return add(host.const_data_ptr<int16_t>());
    case at::kChar:
      return add(host.const_data_ptr<int8_t>());
    case at::kByte:
      return add(host.const_data_ptr<uint8_t>());
    case at::kUInt16:
      return add(host.const_data_ptr<uint16_t>());
    case at::kUInt32:
      return add(host.const_data_ptr<uint32_t>());
    case at::kUInt64:
      return add(host.const_data_ptr<uint64_t>());
    default:
      refuse(cat("a tensor of ", c10::toString(host.scalar_type())));
  }
}

int64_t SubsetView::number(py::handle item) const {
  if (PyLong_CheckExact(item.ptr())) return checked_long(item.ptr());
  if (flag_of(item)) refuse("a bool (a mask is a list or tensor of them)");
  if (is_tensor(item)) {
    const at::Tensor& tensor = as_tensor(item);
    check_memory(tensor);
    if (tensor.dim() != 0) refuse(cat("a tensor of ", shape_of(tensor), " in place of a number"));
    Numbers found;
    add_integers(tensor, found);
    return found.front();
  }
  if (PyIndex_Check(item.ptr()) == 0) refuse(type_name(item));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!number) throw py::error_already_set();
  return checked_long(number.ptr());
}

std::vector<int64_t> SubsetView::of_tensor(const at::Tensor& tensor) const {
  check_memory(tensor);
  if (tensor.dim() != 1) refuse(cat("a tensor of ", shape_of(tensor), " (one dimension is)"));
  Numbers all;
  if (tensor.scalar_type() == at::kBool) {
    const at::Tensor host = in_host_memory(tensor);
    add_mask(host.const_data_ptr<bool>(), host.numel(), all);
  } else if (tensor.numel() != 0) {  // torch.tensor([]) holds floats
    add_integers(tensor, all);
  }
  return all;
}

std::vector<int64_t> SubsetView::of_array(const py::object& given) const {
  const auto array = py::reinterpret_borrow<py::array>(given);
  const char kind = array.dtype().kind();
  if (py::hasattr(array, "filled")) refuse("a masked array");
  if (array.ndim() != 1) refuse(cat("an array of ", array.ndim(), " dimensions (one is)"));
  Numbers all;
  if (kind == 'b') {
    const auto flags = py::array_t < bool, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!flags) throw py::error_already_set();
    add_mask(flags.data(), flags.size(), all);
  } else if (kind == 'u') {
    const auto numbers = py::array_t < uint64_t, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!numbers) throw py::error_already_set();
    add_numbers(numbers.data(), numbers.size(), all);
  } else if (kind == 'i') {
    const auto numbers = py::array_t < int64_t, py::array::c_style | py::array::forcecast > ::ensure(array);
    if (!numbers) throw py::error_already_set();
    add_numbers(numbers.data(), numbers.size(), all);
  } else if (kind == 'O') {
    return of_sequence(array);
  } else if (array.size() != 0) {  // np.array([]) holds floats
    refuse(py::str(array.dtype()).cast<std::string>());
  }
  return all;
}

std::vector<int64_t> SubsetView::of_sequence(py::handle sequence) const {
  PyObject* const object = sequence.ptr();
  const bool is_string = PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object);
  if (is_string || PySequence_Check(object) == 0) refuse(type_name(sequence));
  Numbers all;
  if (PyList_Check(object) || PyTuple_Check(object)) all.reserve(static_cast<size_t>(PySequence_Size(object)));
  const auto iterator = py::reinterpret_steal<py::object>(PyObject_GetIter(object));
  if (!iterator) throw py::error_already_set();
  bool is_mask = false;
  int64_t place = 0;
  while (const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()))) {
    const bool is_number = PyLong_CheckExact(item.ptr());
    const std::optional<bool> flag = is_number ? std::nullopt : flag_of(item);
    if (place == 0) is_mask = flag.has_value();
    if (is_mask != flag.has_value()) refuse_mixture();
    if (!flag) {
      all.push_back(is_number ? checked_long(item.ptr()) : number(item));
    } else if (*flag && place < size_) {
      all.push_back(in_source(place));
    }
    ++place;
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (is_mask) check_mask(place);
  return all;
}

std::vector<int64_t> SubsetView::numbers(const py::object& selected) const {
  if (PyList_Check(selected.ptr()) || PyTuple_Check(selected.ptr())) return of_sequence(selected);
  if (is_tensor(selected)) return of_tensor(as_tensor(selected));
  if (py::isinstance<py::array>(selected)) return of_array(selected);
  // Columns of data frames are indexed by label; their arrays are indexed by position.
  if (py::hasattr(selected, "__array__")) {
    return of_array(py::module_::import("numpy").attr("asarray")(selected));
  }
  return of_sequence(selected);
}

void bind_indices(py::module_& module) {
  module.def("resolve_indices", &resolve, py::arg("indices"), py::arg("size"), py::arg("selection"), py::arg("item"));
  module.def("resolve_index", &resolve_one, py::arg("index"), py::arg("size"), py::arg("selection"), py::arg("item"));
}

}  // namespace atompack::bindings
