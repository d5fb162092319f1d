#include "io/shared_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "threads/process.h"

namespace atompack::io {

UniqueFd create_shared_memory(uint64_t bytes) {
  UniqueFd fd(::memfd_create("atompack_batch", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const int code = errno;
    throw IoError(code, cat(bytes, " bytes of shared memory: ", std::strerror(code)), "memfd");
  }
  return fd;
}

namespace {

constexpr uint64_t kHeadBytes = 4096;
constexpr uint64_t kMagic = 0x676e6972'6b706161;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "the ring's words are shared between processes");

uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    throw IoError(errno, cat("getrandom: ", std::strerror(errno)), "shared memory");
  }
  return number;
}

}  // namespace

struct SharedRing::Head {
  uint64_t magic;
  uint64_t id;
  uint64_t slot_bytes;
  std::atomic<uint32_t> attached;
  std::array<std::atomic<uint32_t>, kSlots> holds;    // per slot
  std::array<std::atomic<uint64_t>, kSlots> tickets;  // issued and not redeemed; 0: none
  std::atomic<uint64_t> last_ticket;
};

SharedRing::SharedRing(UniqueFd fd, const RingAddress& address, uint64_t slot_bytes)
    : fd_(std::move(fd)),
      address_(address),
      slot_bytes_(slot_bytes),
      length_(kHeadBytes + kSlots * slot_bytes),
      process_(threads::process_id()) {
  static_assert(sizeof(Head) <= kHeadBytes);
  memory_ = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory_ == MAP_FAILED) throw IoError(errno, cat("mmap: ", std::strerror(errno)), "shared memory");
}

SharedRing::~SharedRing() { ::munmap(memory_, length_); }

std::shared_ptr<SharedRing> SharedRing::create(uint64_t slot_bytes) {
  UniqueFd fd = create_shared_memory(kHeadBytes + kSlots * slot_bytes);  // zero-filled: all slots are free
  const RingAddress address{threads::process_id(), fd.get(), random_number()};
  const std::shared_ptr<SharedRing> ring(new SharedRing(std::move(fd), address, slot_bytes));
  Head& head = ring->head();
  head.magic = kMagic;
  head.id = address.id;
  head.slot_bytes = slot_bytes;
  return ring;
}

std::shared_ptr<SharedRing> SharedRing::attach(const RingAddress& address) {
  const std::string path = cat("/proc/", address.process, "/fd/", address.fd);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  // The process number or the descriptor may have been reused since.
  std::array<uint64_t, 3> start{};
  if (::pread(fd.get(), start.data(), sizeof(start), 0) != sizeof(start)) return nullptr;
  const auto [magic, id, slot_bytes] = start;
  const auto length = static_cast<uint64_t>(status.st_size);
  if (magic != kMagic || id != address.id || length < kHeadBytes || (length - kHeadBytes) % kSlots != 0 ||
      (length - kHeadBytes) / kSlots != slot_bytes) {
    return nullptr;
  }
  std::shared_ptr<SharedRing> ring(new SharedRing(std::move(fd), address, slot_bytes));
  ring->head().attached.store(1, std::memory_order_release);
  return ring;
}

std::byte* SharedRing::slot(uint32_t number) const {
  return static_cast<std::byte*>(memory_) + kHeadBytes + number * slot_bytes_;
}

bool SharedRing::is_attached() const { return head().attached.load(std::memory_order_acquire) != 0; }

std::optional<uint32_t> SharedRing::claim() {
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    uint32_t none = 0;
    if (head().holds[slot].compare_exchange_strong(none, 1, std::memory_order_acquire)) {
      head().tickets[slot].store(0, std::memory_order_relaxed);
      return slot;
    }
  }
  return std::nullopt;
}

RingTicket SharedRing::issue(uint32_t slot) {
  const uint64_t number = head().last_ticket.fetch_add(1, std::memory_order_relaxed) + 1;
  head().holds[slot].fetch_add(1, std::memory_order_relaxed);
  head().tickets[slot].store(number, std::memory_order_release);
  return {address_, slot, number};
}

bool SharedRing::redeem(const RingTicket& ticket) {
  if (ticket.slot >= kSlots || ticket.number == 0) return false;
  uint64_t expected = ticket.number;
  return head().tickets[ticket.slot].compare_exchange_strong(expected, 0, std::memory_order_acquire);
}

void SharedRing::release(uint32_t slot) {
  if (process_ == threads::process_id()) head().holds[slot].fetch_sub(1, std::memory_order_release);
}

}  // namespace atompack::io
