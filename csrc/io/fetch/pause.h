// A time without attempts at something that failed, and the reason for it.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

namespace atompack::io::fetch {

// Thread-safe.
class Pause {
 public:
  void begin(std::string reason, std::chrono::milliseconds length) {
    const std::scoped_lock lock(mutex_);
    reason_ = std::move(reason);
    until_ = now() + std::chrono::duration_cast<Clock::duration>(length).count();
  }
  bool is_over() const {
    const Clock::rep until = until_.load(std::memory_order_relaxed);
    return until == kNone || now() >= until;
  }
  // After an attempt that succeeded.
  void end() {
    if (until_.load(std::memory_order_relaxed) == kNone) return;
    const std::scoped_lock lock(mutex_);
    reason_.clear();
    until_ = kNone;
  }
  // Empty if there is none; stays until an attempt succeeds.
  std::string reason() const {
    const std::scoped_lock lock(mutex_);
    return reason_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep kNone = 0;
  static Clock::rep now() { return Clock::now().time_since_epoch().count(); }

  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<Clock::rep> until_ = kNone;
};

}  // namespace atompack::io::fetch
