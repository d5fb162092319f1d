// Type casters of tensors and dtypes. They replace those of torch, because parsing torch's header takes longer than the
// rest of most sources here.
#pragma once

#include "bindings/tensors.h"

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

template <>
struct pybind11::detail::type_caster<at::ScalarType> {
  PYBIND11_TYPE_CASTER(at::ScalarType, const_name("torch.dtype"));

  bool load(handle source, bool) {
    if (!atompack::bindings::is_dtype(source)) return false;
    value = atompack::bindings::as_dtype(source);
    return true;
  }
  static handle cast(at::ScalarType dtype, return_value_policy, handle) {
    return atompack::bindings::wrap_dtype(dtype);
  }
};
