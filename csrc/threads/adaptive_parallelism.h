// The number of threads that a piece of work is worth just now.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <type_traits>

namespace atompack::collate {

struct Spent {
  double wall = 0, cpu = 0;  // nanoseconds; cpu: of the calling thread
};

class Stopwatch {
 public:
  Spent spent() const {
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

// On idle cores a second thread nearly halves the time of a batch. On shared ones a parallel region ends when the
// scheduler has given every thread its turn, which can be a hundred times the batch. So:
// - Work is split only where each thread gets at least kLeastShare, by the processor time that one thread was seen to
//   take: a small batch never enters a parallel region, however loaded the machine is.
// - What parallel runs took is held against what one thread takes. Where they lose, later work runs on one thread until
//   the loss is a few percent of the time in all, and for longer each time that it happens again.
// Thread-safe; a lost update does no harm.
class ParallelPace {
 public:
  static constexpr double kLeastShare = 150e3;  // nanoseconds

  // Far from worth a second thread, so that reading clocks would be felt. Now and then not, to notice a change.
  bool is_small(int64_t work) {
    const double pace = load(cpu_pace_);
    return pace > 0 && pace * static_cast<double>(work) < kLeastShare && ++small_ % kRefresh != 0;
  }

  // Of at most so many threads; asked before each piece of work.
  int64_t advised_threads(int64_t work, int64_t most) {
    if (most < 2) return 1;
    const auto worth = static_cast<int64_t>(load(cpu_pace_) * static_cast<double>(work) / kLeastShare);
    const int64_t n = std::min(worth, most);
    if (n < 2 || load(owed_) > 0) return 1;
    // Now and then on one thread, to know still how long that takes: often at first, when caches are cold.
    const int64_t asked = ++asked_;
    return asked % kRefresh == 0 || (asked & (asked - 1)) == 0 ? 1 : n;
  }

  // Told what it took, and on how many threads.
  void took(const Spent& spent, int64_t work, int64_t threads) {
    const auto units = static_cast<double>(std::max(work, int64_t{1}));
    if (threads < 2) {
      approach(cpu_pace_, spent.cpu / units);
      approach(wall_pace_, spent.wall / units);
      store(owed_, std::max(load(owed_) - spent.wall, 0.0));
      return;
    }
    const double expected = load(wall_pace_) * units;
    const double lost = load(lost_) + spent.wall - expected;
    if (lost > expected) {
      const double factor = std::min(load(payback_), kMostPayback);
      store(owed_, factor * lost);
      store(payback_, 2 * factor);
      store(lost_, 0);
    } else {
      store(lost_, std::max(lost, -kMostCredit * expected));
      if (lost <= -kMostCredit * expected) store(payback_, kLeastPayback);
    }
  }

 private:
  static constexpr int64_t kRefresh = 256;
  static constexpr double kLeastPayback = 32;  // of a loss, in time on one thread
  static constexpr double kMostPayback = 512;
  static constexpr double kMostCredit = 16;  // in batches: what was gained long ago makes up for nothing

  static double load(const std::atomic<double>& value) { return value.load(std::memory_order_relaxed); }
  static void store(std::atomic<double>& value, double now) { value.store(now, std::memory_order_relaxed); }

  // Falls at once and rises slowly: the first run opens files, and any may be interrupted, but none is too short.
  static void approach(std::atomic<double>& pace, double now) {
    const double before = load(pace);
    if (before == 0) return store(pace, now);
    const double step = now < before ? 0.9 : 0.1;
    store(pace, before + step * (std::min(now, 4 * before) - before));
  }

  std::atomic<int64_t> asked_{0}, small_{0};
  std::atomic<double> cpu_pace_{0}, wall_pace_{0};  // nanoseconds for a unit of work on one thread; 0: not known yet
  std::atomic<double> lost_{0};                     // nanoseconds, by parallel runs; negative: gained
  std::atomic<double> owed_{0};                     // nanoseconds that are to be spent on one thread
  std::atomic<double> payback_{kLeastPayback};
};

// Calls body(n_threads) with the number that is worth it, and lets the pace know what it took.
template <typename Body>
auto run_paced(ParallelPace& pace, int64_t work, int64_t most_threads, const Body& body) {
  if (most_threads < 2 || pace.is_small(work)) return body(int64_t{1});
  const int64_t n_threads = pace.advised_threads(work, most_threads);
  const Stopwatch watch;
  if constexpr (std::is_void_v<decltype(body(n_threads))>) {
    body(n_threads);
    pace.took(watch.spent(), work, n_threads);
  } else {
    auto result = body(n_threads);
    pace.took(watch.spent(), work, n_threads);
    return result;
  }
}

}  // namespace atompack::collate
