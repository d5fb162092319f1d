#include "collate/tensor_checks.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace atompack::collate {

void expect_tensor(const at::Tensor& tensor, const char* name, at::ScalarType type, at::IntArrayRef sizes) {
  if (tensor.is_nested() || tensor.layout() != at::kStrided) {
    throw FieldError(cat(name, ": expected a dense tensor, got ", tensor.is_nested() ? "a nested" : "another"))
        .at_field(name);
  }
  if (tensor.is_cpu() && tensor.scalar_type() == type && tensor.sizes() == sizes) return;
  throw FieldError(cat(name, ": expected ", c10::toString(type), " of shape ", sizes, " on cpu, got ",
                       c10::toString(tensor.scalar_type()), " of shape ", tensor.sizes(), " on ", tensor.device()))
      .at_field(name);
}

at::Tensor in_plain_memory(const at::Tensor& tensor) { return tensor.resolve_conj().resolve_neg().contiguous(); }

void expect_ptr(const at::Tensor& ptr, int64_t n_atoms) {
  if (!ptr.is_nested() && ptr.dim() == 1 && ptr.numel() > 0 && ptr.is_contiguous() && !ptr.is_neg()) {
    expect_tensor(ptr, "ptr", at::kLong, ptr.sizes());
    const std::span firsts = items_of<int64_t>(ptr);
    if (firsts.front() == 0 && firsts.back() == n_atoms && std::ranges::is_sorted(firsts)) return;
  }
  throw FieldError(cat("ptr: expected ascending numbers from 0 to ", n_atoms)).at_field("ptr");
}

}  // namespace atompack::collate
