// Whether splitting work over threads pays just now.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace atompack::collate {

// On idle cores a second thread nearly halves the time of a batch; on busy ones entering a parallel region costs whole
// scheduler slices, a hundred times the batch. So both ways are timed: where threads took longer than one thread had,
// the next batches run on one, for twice as many batches each time. Thread-safe; a lost update does no harm.
class ParallelPace {
 public:
  // Asked before each piece of work that is large enough to be split.
  bool advises_threads() {
    const int64_t serial = serial_batches_.load(std::memory_order_relaxed);
    if (serial > 0) serial_batches_.store(serial - 1, std::memory_order_relaxed);
    return serial <= 0;
  }

  // Told how long it took, and whether it was split.
  void took(double nanoseconds, int64_t work, bool threads) {
    const double now = nanoseconds / static_cast<double>(std::max(work, int64_t{1}));
    const double serial = serial_pace_.load(std::memory_order_relaxed);
    if (!threads) {
      serial_pace_.store(serial == 0 ? now : 0.75 * serial + 0.25 * now, std::memory_order_relaxed);
      return;
    }
    // The best of a few is judged: the first after a while on one thread has to wake the others up.
    const double best = std::min(now, best_.load(std::memory_order_relaxed));
    best_.store(best, std::memory_order_relaxed);
    const int64_t batches = ++parallel_batches_;
    if (batches % kTries != 0) return;
    best_.store(kNever, std::memory_order_relaxed);
    const int64_t next = best > serial ? 2 * back_off_.load(std::memory_order_relaxed) : kLeastBackOff;
    back_off_.store(std::min(next, kMostBackOff), std::memory_order_relaxed);
    if (best > serial) {
      serial_batches_.store(back_off_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    } else if (batches % kRefresh == 0) {
      serial_batches_.store(1, std::memory_order_relaxed);  // to know still how long one thread takes
    }
  }

 private:
  static constexpr int64_t kLeastBackOff = 8;
  static constexpr int64_t kMostBackOff = 4096;
  static constexpr int64_t kTries = 4;
  static constexpr int64_t kRefresh = 64 * kTries;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  std::atomic<int64_t> serial_batches_{1};  // to run on one thread before the next try; the first tells the pace
  std::atomic<int64_t> back_off_{kLeastBackOff};
  std::atomic<int64_t> parallel_batches_{0};
  std::atomic<double> best_{kNever};    // of the tries so far
  std::atomic<double> serial_pace_{0};  // nanoseconds for a unit of work
};

}  // namespace atompack::collate
