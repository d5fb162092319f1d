// Slots of shared memory that one process fills and another one frees, again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/unique_fd.h"

namespace atompack::io {

// What another process needs to find a ring, and what it needs to take over one slot of it.
struct RingAddress {
  int64_t process;
  int fd;
  uint64_t id;
};
struct RingTicket {
  RingAddress ring;
  uint32_t slot;
  uint64_t number;  // redeemed once
};

// Anonymous memory, found by the descriptor of the process that made it: it has no name that could be left behind, and
// goes when the last process that maps it does. A slot is held by its maker's claim and by a ticket or who redeemed
// it; when neither is left it is free. Thread-safe, between processes too.
class SharedRing {
 public:
  static constexpr uint32_t kSlots = 16;

  static std::shared_ptr<SharedRing> create(uint64_t slot_bytes);
  // Nothing if the ring is not there any more or this process may not see it.
  static std::shared_ptr<SharedRing> attach(const RingAddress& address);
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;
  ~SharedRing();

  const RingAddress& address() const { return address_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  std::byte* slot(uint32_t number) const;

  // Whether some process has attached to it: only then are tickets of use.
  bool is_attached() const;

  // The maker's side: a free slot, held until release().
  std::optional<uint32_t> claim();
  // A second hold on a claimed slot, for who redeems it.
  RingTicket issue(uint32_t slot);
  // The other side. False if this ticket was redeemed before; else the slot is held until release().
  bool redeem(const RingTicket& ticket);
  // Gives one hold up. Does nothing in a fork of the process that took it.
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
  int64_t process_;  // that maps it
};

}  // namespace atompack::io
