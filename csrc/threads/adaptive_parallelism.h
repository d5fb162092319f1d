// Choice of the number of threads for a piece of work, from measured times.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <type_traits>

namespace atompack::threads {

struct ElapsedTime {
  double wall = 0, cpu = 0;  // nanoseconds; cpu: of the calling thread
};

class Stopwatch {
 public:
  ElapsedTime elapsed() const {
    const std::chrono::duration<double, std::nano> wall = std::chrono::steady_clock::now() - start_;
    return {wall.count(), thread_nanoseconds() - start_cpu_};
  }

 private:
  static double thread_nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double start_cpu_ = thread_nanoseconds();
};

// On idle cores a second thread nearly halves the time of a batch. On shared cores a parallel region ends when the
// scheduler has given every thread its turn, which can take a hundred times as long as the batch. So:
// - Work is split only if each thread gets at least kMinShare, by the measured processor time of one thread: a small
//   batch never enters a parallel region, however loaded the machine is.
// - The time of parallel runs is compared with that of one thread. After a loss, later work runs on one thread until
//   the loss is a few percent of the total time, and for longer after each further loss.
// Thread-safe; a lost update does no harm.
class AdaptiveParallelism {
 public:
  static constexpr double kMinShare = 60e3;  // nanoseconds

  AdaptiveParallelism() = default;

  // For pieces of work so large that even the first ones should be split: `pace`, in nanoseconds of one thread for a
  // unit of work, counts until one is measured.
  explicit AdaptiveParallelism(double pace) : first_on_one_thread_(8), cpu_pace_(pace) {}

  // True if the work is far from worth a second thread, so that reading clocks would cost noticeably. False for some
  // calls, to notice a change.
  bool is_small(int64_t work) {
    const double pace = load(cpu_pace_);
    return pace > 0 && pace * static_cast<double>(work) < kMinShare && ++small_ % kRefresh != 0;
  }

  // Returns 1 to `max_threads`; called before each piece of work.
  int64_t advised_threads(int64_t work, int64_t max_threads) {
    const int64_t n = advised_after_sample(work, max_threads);
    if (n < 2) return 1;
    // Some runs use one thread to keep its time up to date: more often at first, when caches are cold.
    const int64_t asked = ++asked_;
    if (asked < first_on_one_thread_) return n;
    return asked % kRefresh == 0 || (asked & (asked - 1)) == 0 ? 1 : n;
  }

  // The same for the rest of a piece of work, of which a part was run on one thread and recorded.
  int64_t advised_after_sample(int64_t work, int64_t max_threads) const {
    if (max_threads < 2 || load(owed_) > 0) return 1;
    const auto worth = static_cast<int64_t>(load(cpu_pace_) * static_cast<double>(work) / kMinShare);
    return std::clamp(worth, int64_t{1}, max_threads);
  }

  // Records the time spent on a piece of work and its number of threads.
  void record(const ElapsedTime& elapsed, int64_t work, int64_t threads) {
    const auto units = static_cast<double>(std::max(work, int64_t{1}));
    if (threads < 2) {
      approach(cpu_pace_, elapsed.cpu / units);
      approach(wall_pace_, elapsed.wall / units);
      store(owed_, std::max(load(owed_) - elapsed.wall, 0.0));
      return;
    }
    const double expected = load(wall_pace_) * units;
    if (expected == 0) return;  // nothing to compare with
    const double lost = load(lost_) + elapsed.wall - expected;
    if (lost > expected) {
      const double factor = std::min(load(payback_), kMaxPayback);
      store(owed_, factor * lost);
      store(payback_, 2 * factor);
      store(lost_, 0);
    } else {
      store(lost_, std::max(lost, -kMaxCredit * expected));
      if (lost <= -kMaxCredit * expected) store(payback_, kMinPayback);
    }
  }

 private:
  static constexpr int64_t kRefresh = 256;
  static constexpr double kMinPayback = 32;  // of a loss, in time on one thread
  static constexpr double kMaxPayback = 512;
  static constexpr double kMaxCredit = 16;  // in batches: gains of long ago do not offset later losses

  static double load(const std::atomic<double>& value) { return value.load(std::memory_order_relaxed); }
  static void store(std::atomic<double>& value, double now) { value.store(now, std::memory_order_relaxed); }

  // Falls immediately and rises slowly: the first run opens files and any run may be interrupted, but none is too fast.
  static void approach(std::atomic<double>& pace, double now) {
    const double before = load(pace);
    if (before == 0) return store(pace, now);
    const double step = now < before ? 0.9 : 0.1;
    store(pace, before + step * (std::min(now, 4 * before) - before));
  }

  int64_t first_on_one_thread_ = 1;  // power of two: the first call that is not split to learn its time
  std::atomic<int64_t> asked_{0}, small_{0};
  std::atomic<double> cpu_pace_{0}, wall_pace_{0};  // nanoseconds per unit of work on one thread; 0: unknown
  std::atomic<double> lost_{0};                     // nanoseconds lost by parallel runs; negative: gained
  std::atomic<double> owed_{0};                     // nanoseconds still to be spent on one thread
  std::atomic<double> payback_{kMinPayback};
};

// Calls body(n_threads) with the advised number and records its time.
template <typename Body>
auto run_adaptively(AdaptiveParallelism& pace, int64_t work, int64_t max_threads, const Body& body) {
  if (max_threads < 2 || pace.is_small(work)) return body(int64_t{1});
  const int64_t n_threads = pace.advised_threads(work, max_threads);
  const Stopwatch watch;
  if constexpr (std::is_void_v<decltype(body(n_threads))>) {
    body(n_threads);
    pace.record(watch.elapsed(), work, n_threads);
  } else {
    auto result = body(n_threads);
    pace.record(watch.elapsed(), work, n_threads);
    return result;
  }
}

}  // namespace atompack::threads
