// Arenas in the slots of a shared ring, which a worker process sends as slot numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <optional>

#include "io/shared_ring.h"

namespace atompack::collate {

// In the worker: allocates a slot of this process's ring. Returns nullopt if no other process has attached to the ring
// yet, if all slots are in use, or if they are too small (then a ring with larger slots is made for the next call).
std::optional<c10::DataPtr> allocate_slot(size_t bytes);

// Returns the address of this process's ring if no other process has attached to it yet.
std::optional<io::RingAddress> ring_to_attach();

// Issues a ticket with which another process can share the slot of this arena; nullopt if the arena is not in a slot.
// The slot is in use until both this arena and the tensor that receive_arena() returns are freed.
std::optional<io::RingTicket> send_arena(const at::Tensor& arena);

// In the receiver: returns false if the ring no longer exists or is not visible to this process.
bool attach_ring(const io::RingAddress& address);
// Throws IoError if the ring no longer exists, InternalError if the ticket was already used.
at::Tensor receive_arena(const io::RingTicket& ticket, size_t bytes);

}  // namespace atompack::collate
