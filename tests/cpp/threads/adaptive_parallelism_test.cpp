#include "threads/adaptive_parallelism.h"

#include <gtest/gtest.h>

namespace atompack::threads {
namespace {

constexpr int64_t kWork = 1000;

// Runs of equal work on a made-up clock: one thread takes `serial`, more take `parallel` nanoseconds.
struct Runs {
  AdaptiveParallelism pace;
  double elapsed = 0;
  int64_t n_parallel = 0;

  void run(int n, double serial, double parallel, double serial_cpu) {
    for (int i = 0; i < n; ++i) {
      const int64_t threads = pace.advised_threads(kWork, 2);
      const double wall = threads > 1 ? parallel : serial;
      pace.record({wall, threads > 1 ? parallel / 2 : serial_cpu}, kWork, threads);
      n_parallel += threads > 1;
      elapsed += wall;
    }
  }
};

TEST(AdaptiveParallelism, SmallWorkIsNeverSplit) {
  Runs runs;
  const double serial = 2 * AdaptiveParallelism::kMinShare - 1000;
  runs.run(1000, serial, serial / 2, serial);
  EXPECT_EQ(runs.n_parallel, 0);
  EXPECT_EQ(runs.pace.advised_threads(1 << 30, 1), 1);
}

TEST(AdaptiveParallelism, WaitingForAProcessorMakesNoWorkLarge) {
  Runs runs;
  runs.run(1000, 50e6, 1e6, 40e3);  // 40 us of work, run in turns with others
  EXPECT_EQ(runs.n_parallel, 0);
}

TEST(AdaptiveParallelism, LargeWorkIsSplitWhereThreadsGain) {
  Runs runs;
  runs.run(1000, 1e6, 0.55e6, 1e6);
  EXPECT_GT(runs.n_parallel, 980);
}

TEST(AdaptiveParallelism, LargeWorkIsSplitFromTheFirstCallOn) {
  AdaptiveParallelism pace(1e6 / kWork);
  for (int call = 1; call < 8; ++call) {
    EXPECT_EQ(pace.advised_threads(kWork, 2), 2) << call;
    pace.record({3e6, 3e6}, kWork, 2);  // a loss that nothing shows yet
  }
  EXPECT_EQ(pace.advised_threads(kWork, 2), 1) << "to know the time of one thread";
  pace.record({1e6, 1e6}, kWork, 1);
  EXPECT_EQ(pace.advised_threads(kWork, 2), 2);
  pace.record({3e6, 3e6}, kWork, 2);
  EXPECT_EQ(pace.advised_threads(kWork, 2), 1) << "after a loss";
  EXPECT_EQ(AdaptiveParallelism(1e6 / kWork).advised_threads(kWork / 10, 2), 1) << "small";
}

TEST(AdaptiveParallelism, EachThreadHasItsShare) {
  AdaptiveParallelism pace;
  pace.record({1e6, 1e6}, kWork, 1);
  for (int i = 0; i < 3; ++i) pace.advised_threads(kWork, 64);
  EXPECT_EQ(pace.advised_threads(kWork, 64), 1) << "the fourth, to know the pace";
  EXPECT_EQ(pace.advised_threads(kWork, 64), static_cast<int64_t>(1e6 / AdaptiveParallelism::kMinShare));
  EXPECT_EQ(pace.advised_threads(10 * kWork, 64), 64);
}

TEST(AdaptiveParallelism, LossesStayAFewPercent) {
  for (const double slower : {1.05, 1.5, 3.0, 20.0, 200.0}) {
    Runs runs;
    constexpr int kRuns = 100'000;
    runs.run(kRuns, 1e6, slower * 1e6, 1e6);
    EXPECT_LT(runs.elapsed, 1.05 * kRuns * 1e6) << slower;
  }
}

TEST(AdaptiveParallelism, GainsAreTakenUpAgainWhenOthersAreGone) {
  Runs runs;
  runs.run(1000, 1e6, 5e6, 1e6);
  runs.n_parallel = 0;
  runs.run(20'000, 1e6, 0.5e6, 1e6);
  EXPECT_GT(runs.n_parallel, 15'000);
}

TEST(AdaptiveParallelism, OneInterruptionDoesNotEndIt) {
  Runs runs;
  runs.run(1000, 1e6, 0.5e6, 1e6);
  runs.n_parallel = 0;
  runs.run(1, 1e6, 8e6, 1e6);
  runs.run(99, 1e6, 0.5e6, 1e6);
  EXPECT_GT(runs.n_parallel, 95);
}

TEST(AdaptiveParallelism, AColdFirstRunMisleadsNobody) {
  for (const double cpu : {0.6e6, 0.2e6}) {
    Runs runs;
    runs.pace.record({300e6, 100e6}, kWork, 1);
    runs.run(10'000, cpu, 30 * cpu, cpu);
    EXPECT_LT(runs.elapsed, 1.05 * 10'000 * cpu) << cpu;
  }
}

TEST(AdaptiveParallelism, SmallWorkIsSeldomTimed) {
  AdaptiveParallelism pace;
  EXPECT_FALSE(pace.is_small(1)) << "nothing is known yet";
  pace.record({1e3, 1e3}, kWork, 1);
  int n_timed = 0;
  for (int i = 0; i < 1024; ++i) n_timed += !pace.is_small(kWork);
  EXPECT_EQ(n_timed, 4);
  EXPECT_FALSE(pace.is_small(1000 * kWork));
}

TEST(AdaptiveParallelism, RunsAreTimed) {
  AdaptiveParallelism pace;
  int64_t seen = 0;
  EXPECT_EQ(run_adaptively(pace, kWork, 4, [&](int64_t n) { return seen = n; }), 1);
  run_adaptively(pace, kWork, 1, [&](int64_t n) { seen = n; });
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace atompack::threads
