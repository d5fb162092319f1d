#include "bindings/indices.h"

namespace atompack::bindings {

int64_t Shown::checked(int64_t index) const {
  if (index < -size_ || index >= size_) {
    throw py::index_error(cat(item_, " ", index, " is out of range for a data set of ", size_));
  }
  if (index < 0) index += size_;
  return numbers_ == nullptr ? index : numbers_[index];
}

int64_t Shown::number(py::handle item) const {
  if (PyBool_Check(item.ptr())) throw py::type_error("indices: expected integers, got a bool (masks are not taken)");
  const Py_ssize_t index = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
  if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return checked(index);
}

std::vector<int64_t> Shown::numbers(const py::object& items) const {
  std::vector<int64_t> all;
  if (is_tensor(items)) {
    const auto tensor = items.cast<at::Tensor>();
    const int64_t* const first = tensor.const_data_ptr<int64_t>();
    all.reserve(static_cast<size_t>(tensor.numel()));
    for (const int64_t* index = first; index != first + tensor.numel(); ++index) all.push_back(checked(*index));
    return all;
  }
  const auto sequence = items.cast<py::sequence>();
  all.reserve(sequence.size());
  // Held as objects: the items of a range are made as they are asked for, and nobody else holds them.
  for (const py::object item : sequence) all.push_back(number(item));
  return all;
}

}  // namespace atompack::bindings
