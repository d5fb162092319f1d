#include "bindings/tensors.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

namespace atompack::bindings {

bool is_tensor(pybind11::handle object) { return THPVariable_Check(object.ptr()); }

bool is_plain_tensor(pybind11::handle object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == THPVariableClass;
}

const at::Tensor& as_tensor(pybind11::handle object) { return THPVariable_Unpack(object.ptr()); }

pybind11::handle wrap_tensor(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }

bool is_dtype(pybind11::handle object) { return THPDtype_Check(object.ptr()); }

at::ScalarType as_dtype(pybind11::handle object) {
  return reinterpret_cast<const THPDtype*>(object.ptr())->scalar_type;
}

pybind11::handle wrap_dtype(at::ScalarType dtype) {
  return pybind11::handle(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))).inc_ref();
}

}  // namespace atompack::bindings
