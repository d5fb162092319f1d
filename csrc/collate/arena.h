// Arenas: single blocks of memory, each shared by all tensors of a batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "io/shared_ring.h"

namespace atompack::collate {

// heap: recycled blocks, because new pages cost more than filling them; shared: in shared memory, so that a worker
// process sends it as one descriptor without a copy; pinned: page-locked, recycled by torch, for asynchronous copies to
// a CUDA device.
enum class ArenaKind : uint8_t { heap, shared, pinned };

// Returns a uint8 tensor of the first `bytes` bytes of `memory`.
at::Tensor wrap_memory(c10::DataPtr memory, size_t memory_bytes, size_t bytes);

// Returns an uninitialized uint8 tensor of `bytes` bytes, 64-byte aligned.
at::Tensor allocate_arena(size_t bytes, ArenaKind kind);

// Returns a typed, contiguous view of the arena, on any device; `offset` is in bytes.
at::Tensor view_arena(const at::Tensor& arena, DType dtype, size_t offset, std::span<const int64_t> sizes);

// True if the tensor can be made again from the arena: a contiguous view of it that needs no gradient.
bool is_view_of(const at::Tensor& tensor, const at::Tensor& arena);

struct TensorSpec {
  DType dtype;
  std::vector<int64_t> shape;
};

// Uninitialized tensors in an arena of their own.
struct ArenaTensors {
  at::Tensor arena;
  std::vector<at::Tensor> views;
};
ArenaTensors allocate_tensors(std::span<const TensorSpec> specs, ArenaKind kind);
// Copies of tensors in one shared arena, which another process can receive.
ArenaTensors pack_tensors(std::span<const at::Tensor> tensors);

DType dtype_of(at::ScalarType type);
// The same; nullopt for types that this library does not have.
std::optional<DType> find_dtype(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

// Arenas in the slots of a shared ring, which a worker process sends as slot numbers.

// In the worker: allocates a slot of this process's ring. Returns nullopt if no other process has attached to the ring
// yet, if all slots are in use, or if they are too small (then a ring with larger slots is made for the next call).
std::optional<c10::DataPtr> allocate_slot(size_t bytes);

// Returns the address of this process's ring if no other process has attached to it yet.
std::optional<io::RingAddress> ring_to_attach();

// Tensors as numbers, from which another process makes them again.
struct SentTensors {
  std::vector<int64_t> message;
  std::vector<size_t> outside;  // those that the message lacks, since they are not views of the arena
  bool has_arena;               // the arena is in a slot, which is in use until the receiver has freed it too
};
SentTensors send_tensors(const at::Tensor& arena, std::span<const at::Tensor> tensors);

// In the receiver: returns false if the ring no longer exists or is not visible to this process.
bool attach_ring(const io::RingAddress& address);
// Makes the tensors of a message; those outside of the arena are undefined. Without `arena`, the message has it.
// Throws IoError if the ring no longer exists, InternalError if the message was already used.
ArenaTensors receive_tensors(std::span<const int64_t> message, const std::optional<at::Tensor>& arena);

}  // namespace atompack::collate
