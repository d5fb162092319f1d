#include "io/read_ahead.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace atompack::io {
namespace {

// Some file systems cannot say whether a read would wait; then the time of a read shows it.
bool is_read_fast(int fd, uint64_t offset) {
  constexpr std::chrono::microseconds kFromMemory{30};
  std::byte byte{};
  const auto start = std::chrono::steady_clock::now();
  static_cast<void>(::pread(fd, &byte, 1, static_cast<off_t>(offset)));
  return std::chrono::steady_clock::now() - start < kFromMemory;
}

}  // namespace

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

bool is_in_memory(int fd, uint64_t offset) {
  std::byte byte{};
  const iovec into{&byte, 1};
  const ssize_t got = ::preadv2(fd, &into, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got >= 0) return true;
  return errno == EAGAIN ? false : is_read_fast(fd, offset);
}

bool Residency::is_due() const {
  constexpr uint32_t kInterval = 64;
  constexpr int64_t kLong = 1'000'000;
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  const int64_t passed = now - last_batch_.exchange(now, std::memory_order_relaxed);
  if (state() != State::resident) return state() == State::unknown;
  if (passed < kLong && n_batches_.fetch_add(1, std::memory_order_relaxed) + 1 < kInterval) return false;
  n_batches_.store(0, std::memory_order_relaxed);
  return true;
}

Residency::State Residency::sample(int fd, std::span<const ByteRange> ranges) const {
  constexpr size_t kMaxSamples = 8;
  const size_t step = std::max<size_t>(1, ranges.size() / kMaxSamples);
  bool is_resident = true;
  for (size_t i = 0; i < ranges.size() && is_resident; i += step) is_resident = is_in_memory(fd, ranges[i].offset);
  return update(is_resident);
}

Residency::State Residency::update(bool is_resident) const {
  constexpr uint32_t kEnough = 32;  // samples until a file counts as read into memory
  const State before = state();
  State now = State::absent;
  if (!is_resident) {
    n_resident_.store(0, std::memory_order_relaxed);
  } else if (before != State::absent || n_resident_.fetch_add(1, std::memory_order_relaxed) + 1 >= kEnough) {
    now = State::resident;
  }
  state_.store(now, std::memory_order_relaxed);
  return now;
}

}  // namespace atompack::io
