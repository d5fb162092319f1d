// Tensors of indices, or masks, that select items of a dataset.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "plan/subset_view.h"

namespace atompack::collate {

// Throws TypeError for a tensor without plain values in memory.
void check_has_values(const at::Tensor& indices);

// Return numbers in the source. The tensors are on the CPU, of integers of any width or, in one dimension, bools. Throw
// TypeError for other types and dimensions, and the errors of SubsetView.
std::vector<int64_t> numbers_of(const plan::SubsetView& subset, const at::Tensor& indices);
int64_t number_of(const plan::SubsetView& subset, const at::Tensor& index);

// The value of a tensor of one bool. Throws TypeError for other shapes.
bool flag_of(const at::Tensor& flag);

// A view of all items, or of those of a selection: contiguous int64 on the CPU, kept alive by the caller.
plan::SubsetView subset_view(int64_t size, const std::optional<at::Tensor>& selection, std::string item);

}  // namespace atompack::collate
