// Ring of shared-memory slots that one process fills and another releases.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/unique_fd.h"

namespace atompack::io {

// Anonymous shared memory: it has a descriptor and no name, so nothing can be left behind in /dev/shm.

UniqueFd create_shared_memory(uint64_t bytes);

// Address of a ring for another process, and the ticket to take over one of its slots.
struct RingAddress {
  int64_t process;
  int fd;
  uint64_t id;
};
struct RingTicket {
  RingAddress ring;
  uint32_t slot;
  uint64_t number;  // can be redeemed once
};

// Anonymous memory, found through the descriptor of the process that created it; it is freed with the last process that
// maps it. A slot has up to two holds: its creator's claim, and a ticket or the process that redeemed it. Without holds
// it is free. Thread-safe, also between processes.
class SharedRing {
 public:
  static constexpr uint32_t kSlots = 16;

  static std::shared_ptr<SharedRing> create(uint64_t slot_bytes);
  // Returns nullptr if the ring no longer exists or this process may not access it.
  static std::shared_ptr<SharedRing> attach(const RingAddress& address);
  ~SharedRing();

  const RingAddress& address() const { return address_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  std::byte* slot(uint32_t number) const;

  // True if another process has attached; only then are tickets useful.
  bool is_attached() const;

  // Producer: claims a free slot, held until release().
  std::optional<uint32_t> claim();
  // Producer: adds a second hold on a claimed slot, for the process that redeems the ticket.
  RingTicket issue(uint32_t slot);
  // Consumer: takes over the hold of a ticket until release(). False if the ticket was redeemed before.
  bool redeem(const RingTicket& ticket);
  // Releases one hold. Does nothing in a fork of the process that acquired it.
  void release(uint32_t slot);

 private:
  struct Head;
  SharedRing(UniqueFd fd, const RingAddress& address, uint64_t slot_bytes);
  Head& head() const { return *static_cast<Head*>(memory_); }

  UniqueFd fd_;
  RingAddress address_;
  uint64_t slot_bytes_;
  void* memory_ = nullptr;
  uint64_t length_ = 0;
  int64_t process_;  // process that maps the ring
};

}  // namespace atompack::io
