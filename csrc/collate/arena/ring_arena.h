// Arenas in the slots of a shared ring: what a worker process sends on is the number of a slot.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <optional>

#include "io/shared_ring.h"

namespace atompack::collate {

// The worker's side. A slot of this process's ring: nothing while no other process has attached to the ring, when all
// slots are in use, or when they are too small (then a ring with larger ones is made for the next time).
std::optional<c10::DataPtr> ring_memory(size_t bytes);

// Where another process finds this process's ring, if it has one that nobody has attached to.
std::optional<io::RingAddress> ring_to_attach();

// Lets another process take over the slot that this arena lies in; nothing if it lies elsewhere. The slot stays in use
// until both this arena and what receive_arena() made of the ticket are freed.
std::optional<io::RingTicket> send_arena(const at::Tensor& arena);

// The other side. False if the ring is gone or hidden from this process.
bool attach_ring(const io::RingAddress& address);
// Fails with IoError if the ring is gone, InternalError if the ticket was used.
at::Tensor receive_arena(const io::RingTicket& ticket, size_t bytes);

}  // namespace atompack::collate
