// Conversion of tensors to and from Python objects. Only its source file includes torch's Python headers, which are
// slow to compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace atompack::bindings {

// True for torch.Tensor and its subclasses.
bool is_tensor(pybind11::handle object);
// False for subclasses such as torch.nn.Parameter.
bool is_plain_tensor(pybind11::handle object);
// Requires is_tensor(object); the reference lives as long as the object.
const at::Tensor& as_tensor(pybind11::handle object);
// An undefined tensor becomes None.
pybind11::handle wrap_tensor(const at::Tensor& tensor);

bool is_dtype(pybind11::handle object);
// Requires is_dtype(object).
at::ScalarType as_dtype(pybind11::handle object);
pybind11::handle wrap_dtype(at::ScalarType dtype);

}  // namespace atompack::bindings
