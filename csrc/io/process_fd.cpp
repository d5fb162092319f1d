#include "io/process_fd.h"

#include <pthread.h>

#include <array>
#include <cstddef>

#include "threads/process.h"

namespace atompack::io {
namespace {

constexpr int kFree = 0;  // other values are descriptors + 1

// Not guarded by a mutex, which the child could find locked.
std::array<std::atomic<int>, 4096> slots;
std::atomic<size_t> last_used = 0;

void close_inherited() {
  for (std::atomic<int>& slot : slots) {
    if (const int value = slot.exchange(kFree); value != kFree) ::close(value - 1);
  }
}

// Runs when the library is loaded; every fork inherits the handler.
const int process_fd_handler_error = pthread_atfork(nullptr, nullptr, close_inherited);

std::atomic<int>* keep(int fd) {
  const size_t start = last_used.load(std::memory_order_relaxed);
  for (size_t i = 1; i <= slots.size(); ++i) {
    const size_t at = (start + i) % slots.size();
    int expected = kFree;
    if (!slots[at].compare_exchange_strong(expected, fd + 1)) continue;
    last_used.store(at, std::memory_order_relaxed);
    return &slots[at];
  }
  return nullptr;
}

}  // namespace

ProcessFd::ProcessFd(UniqueFd fd) {
  if (!fd || process_fd_handler_error != 0) return;
  owner_ = threads::process_id();
  slot_ = keep(fd.get());
  if (slot_ != nullptr) fd_ = fd.release();
}

// The slot first: a fork in between leaves the descriptor open in the child, while the other order could close one that
// another thread has just opened under the same number.
ProcessFd::~ProcessFd() {
  if (slot_ == nullptr || owner_ != threads::process_id()) return;
  slot_->store(kFree);
  ::close(fd_);
}

}  // namespace atompack::io
