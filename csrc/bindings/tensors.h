// Tensors between C++ and Python, and torch's Python headers behind one source file: they are slow to compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace atompack::bindings {

// True for torch.Tensor and its subclasses.
bool is_tensor(pybind11::handle object);
// False for subclasses: torch.nn.Parameter, say.
bool is_plain_tensor(pybind11::handle object);
// Requires is_tensor(object); the reference lives as long as the object.
const at::Tensor& as_tensor(pybind11::handle object);
// An undefined tensor becomes None.
pybind11::handle wrap_tensor(const at::Tensor& tensor);

}  // namespace atompack::bindings

template <>
struct pybind11::detail::type_caster<at::Tensor> {
  PYBIND11_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"));

  bool load(handle source, bool) {
    if (!atompack::bindings::is_tensor(source)) return false;
    value = atompack::bindings::as_tensor(source);
    return true;
  }
  static handle cast(const at::Tensor& tensor, return_value_policy, handle) {
    return atompack::bindings::wrap_tensor(tensor);
  }
};
