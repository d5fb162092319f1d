// What a tensor from outside must be before its memory is read.
#pragma once

#include <ATen/core/Tensor.h>

namespace atompack::collate {

// Throws FieldError where a tensor is of another type or shape, or not dense on the CPU.
void expect_tensor(const at::Tensor& tensor, const char* name, at::ScalarType type, at::IntArrayRef sizes);

// The same values, contiguous, with none of torch's pending conjugations and negations.
at::Tensor in_plain_memory(const at::Tensor& tensor);

// Throws FieldError unless it is int64 in plain memory on the CPU and ascends from 0 to the number of atoms.
void expect_ptr(const at::Tensor& ptr, int64_t n_atoms);

}  // namespace atompack::collate
