#include "collate/indices.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "collate/tensor_checks.h"

namespace atompack::collate {
namespace {

[[noreturn]] void refuse(const std::string& got) { throw TypeError(cat("indices: expected integers, got ", got)); }

void append(const plan::SubsetView& subset, const at::Tensor& indices, std::vector<int64_t>& numbers) {
  const at::Tensor plain = in_plain_memory(indices);
  switch (plain.scalar_type()) {
    case at::kLong:
      return subset.append(items_of<int64_t>(plain), numbers);
    case at::kInt:
      return subset.append(items_of<int32_t>(plain), numbers);
    case at::kShort:
      return subset.append(items_of<int16_t>(plain), numbers);
    case at::kChar:
      return subset.append(items_of<int8_t>(plain), numbers);
    case at::kByte:
      return subset.append(items_of<uint8_t>(plain), numbers);
    case at::kUInt16:
      return subset.append(items_of<uint16_t>(plain), numbers);
    case at::kUInt32:
      return subset.append(items_of<uint32_t>(plain), numbers);
    case at::kUInt64:
      return subset.append(items_of<uint64_t>(plain), numbers);
    default:
      refuse(cat("a tensor of ", c10::toString(plain.scalar_type())));
  }
}

}  // namespace

void check_has_values(const at::Tensor& indices) {
  if (indices.is_nested()) refuse("a nested tensor");
  if (indices.layout() != at::kStrided) refuse(cat("a tensor of layout ", indices.layout()));
  if (indices.is_quantized()) refuse("a quantized tensor");
  if (indices.is_meta()) refuse("a meta tensor, which has no values");
  if (!indices.has_storage() || indices.unsafeGetTensorImpl()->is_python_dispatch()) {
    refuse("a tensor without values of its own");
  }
}

std::vector<int64_t> numbers_of(const plan::SubsetView& subset, const at::Tensor& indices) {
  if (indices.dim() != 1) refuse(cat("a tensor of shape ", indices.sizes(), " (one dimension is)"));
  std::vector<int64_t> numbers;
  if (indices.scalar_type() == at::kBool) {
    const at::Tensor plain = in_plain_memory(indices);
    subset.append_masked(items_of<bool>(plain), numbers);
  } else if (indices.numel() != 0) {  // torch.tensor([]) holds floats
    append(subset, indices, numbers);
  }
  return numbers;
}

int64_t number_of(const plan::SubsetView& subset, const at::Tensor& index) {
  if (index.dim() != 0) refuse(cat("a tensor of shape ", index.sizes(), " instead of a number"));
  std::vector<int64_t> number;
  append(subset, index, number);
  return number.front();
}

bool flag_of(const at::Tensor& flag) {
  if (flag.dim() != 0) refuse(cat("a tensor of shape ", flag.sizes(), " in a list"));
  return *flag.const_data_ptr<bool>();
}

plan::SubsetView subset_view(int64_t size, const std::optional<at::Tensor>& selection, std::string item) {
  if (!selection) return {size, std::move(item)};
  if (!selection->is_cpu() || selection->scalar_type() != at::kLong || selection->dim() != 1 ||
      !selection->is_contiguous() || selection->is_neg()) {
    throw InternalError("a selection is not contiguous int64 on the CPU");
  }
  return {items_of<int64_t>(*selection), std::move(item)};
}

}  // namespace atompack::collate
