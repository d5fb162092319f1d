// Checks of tensors from the caller before their memory is read.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace atompack::collate {

// Throws FieldError if the tensor has a different type or shape, or is not dense on the CPU.
void expect_tensor(const at::Tensor& tensor, const char* name, at::ScalarType type, at::IntArrayRef sizes);

// Returns the same values, contiguous and without torch's lazy conjugation and negation.
at::Tensor in_plain_memory(const at::Tensor& tensor);

// The numbers of a tensor in plain memory.
template <typename T>
std::span<const T> items_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

// Throws FieldError unless `ptr` is int64 in plain memory on the CPU and ascends from 0 to `n_atoms`.
void expect_ptr(const at::Tensor& ptr, int64_t n_atoms);

}  // namespace atompack::collate
