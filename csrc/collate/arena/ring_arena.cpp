#include "collate/arena/ring_arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "collate/arena/arena.h"
#include "threads/process.h"

namespace atompack::collate {
namespace {

constexpr uint64_t kMinSlotBytes = 256 * 1024;
constexpr uint64_t kMaxSlotBytes = uint64_t{64} << 20;

struct Slot {
  std::shared_ptr<io::SharedRing> ring;
  uint32_t number;
};

void release_slot(void* context) {
  const std::unique_ptr<Slot> slot(static_cast<Slot*>(context));
  slot->ring->release(slot->number);
}

c10::DataPtr memory_of(std::shared_ptr<io::SharedRing> ring, uint32_t number) {
  std::byte* const bytes = ring->slot(number);
  return {bytes, new Slot{std::move(ring), number}, &release_slot, c10::Device(c10::DeviceType::CPU)};
}

// Ring that this process makes, and rings of other processes to which it attached. Never destroyed: tensors may
// outlive every static object.
struct Rings {
  static Rings& instance() {
    static Rings& rings = *new Rings;
    return rings;
  }

  std::mutex own_mutex;  // never waited for: a forked child may inherit it locked
  std::shared_ptr<io::SharedRing> own;
  std::mutex others_mutex;
  std::vector<std::shared_ptr<io::SharedRing>> others;
};

// Keeps the two newest rings of each running process, because tickets of the older one may still arrive.
void remove_old_rings(std::vector<std::shared_ptr<io::SharedRing>>& rings) {
  std::erase_if(rings, [](const auto& ring) { return !io::is_running(ring->address().process); });
  for (size_t i = 0; i < rings.size();) {
    const auto same = [&](const auto& ring) { return ring->address().process == rings[i]->address().process; };
    const bool is_old = std::count_if(rings.begin() + static_cast<std::ptrdiff_t>(i), rings.end(), same) > 2;
    if (is_old) {
      rings.erase(rings.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

}  // namespace

std::optional<c10::DataPtr> allocate_slot(size_t bytes) {
  Rings& rings = Rings::instance();
  const std::unique_lock lock(rings.own_mutex, std::try_to_lock);
  if (!lock || bytes > kMaxSlotBytes) return std::nullopt;
  std::shared_ptr<io::SharedRing>& own = rings.own;
  if (!own || own->address().process != io::process_id() || own->slot_bytes() < bytes) {
    own = io::SharedRing::create(std::min(std::bit_ceil(std::max<uint64_t>(2 * bytes, kMinSlotBytes)), kMaxSlotBytes));
  }
  if (!own->is_attached()) return std::nullopt;
  const std::optional<uint32_t> number = own->claim();
  return number ? std::optional(memory_of(own, *number)) : std::nullopt;
}

std::optional<io::RingAddress> ring_to_attach() {
  Rings& rings = Rings::instance();
  const std::unique_lock lock(rings.own_mutex, std::try_to_lock);
  if (!lock || !rings.own || rings.own->address().process != io::process_id() || rings.own->is_attached()) {
    return std::nullopt;
  }
  return rings.own->address();
}

std::optional<io::RingTicket> send_arena(const at::Tensor& arena) {
  const c10::DataPtr& memory = arena.storage().data_ptr();
  if (memory.get_deleter() != &release_slot) return std::nullopt;
  const Slot& slot = *static_cast<Slot*>(memory.get_context());
  if (slot.ring->address().process != io::process_id()) return std::nullopt;  // received here, not made
  return slot.ring->issue(slot.number);
}

bool attach_ring(const io::RingAddress& address) {
  std::shared_ptr<io::SharedRing> ring = io::SharedRing::attach(address);
  if (!ring) return false;
  Rings& rings = Rings::instance();
  const std::lock_guard lock(rings.others_mutex);
  rings.others.push_back(std::move(ring));
  remove_old_rings(rings.others);
  return true;
}

at::Tensor receive_arena(const io::RingTicket& ticket, size_t bytes) {
  Rings& rings = Rings::instance();
  std::shared_ptr<io::SharedRing> ring;
  {
    const std::lock_guard lock(rings.others_mutex);
    const auto found = std::ranges::find(rings.others, ticket.ring.id, [](const auto& r) { return r->address().id; });
    if (found != rings.others.end()) ring = *found;
  }
  if (!ring) ring = io::SharedRing::attach(ticket.ring);
  if (!ring) throw IoError(ESTALE, "the shared memory of a worker process is gone", "shared memory");
  if (bytes > ring->slot_bytes()) throw InternalError("a batch is larger than its slot");
  if (!ring->redeem(ticket)) throw InternalError("a batch of a worker process was unpickled twice");
  return wrap_memory(memory_of(std::move(ring), ticket.slot), bytes, bytes);
}

}  // namespace atompack::collate
