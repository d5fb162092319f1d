// What a tensor from outside must be before its memory is read.
#pragma once

#include <ATen/core/Tensor.h>

namespace atompack::collate {

// Throws FieldError where a tensor is of another type or shape, or not on the CPU.
void expect_tensor(const at::Tensor& tensor, const char* name, at::ScalarType type, at::IntArrayRef sizes);

// Throws FieldError unless it is contiguous int64 on the CPU and ascends from 0 to the number of atoms.
void expect_ptr(const at::Tensor& ptr, int64_t n_atoms);

}  // namespace atompack::collate
