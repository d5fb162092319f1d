// The one block of bytes under all tensors of a batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace atompack::collate {

// heap: recycled blocks, because fresh pages cost more than filling them; shared: born in shared memory, so that a
// worker process passes it on as one descriptor and without a copy; pinned: page-locked, recycled by torch, for copies
// to a CUDA device that go on by themselves.
enum class ArenaKind : uint8_t { heap, shared, pinned };

// A uint8 tensor over the first bytes of this memory.
at::Tensor arena_over(c10::DataPtr memory, size_t memory_bytes, size_t bytes);

// A uint8 tensor of this many bytes, 64-byte aligned, contents undefined.
at::Tensor allocate_arena(size_t bytes, ArenaKind kind);

// A typed, contiguous view of the arena (of any device); `offset` counts bytes.
at::Tensor view_arena(const at::Tensor& arena, DType dtype, size_t offset, std::span<const int64_t> sizes);

struct TensorSpec {
  DType dtype;
  std::vector<int64_t> shape;
};

// Tensors in one arena of their own, contents undefined.
struct ArenaTensors {
  at::Tensor arena;
  std::vector<at::Tensor> views;
};
ArenaTensors allocate_tensors(std::span<const TensorSpec> specs, ArenaKind kind);

DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

}  // namespace atompack::collate
