// Timing of several ways to do one job: they take turns, so that a busy machine slows all of them down alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace atompack::benchmarks {

struct Way {
  std::string name;
  std::function<void()> run;
};

// Keeps the compiler from omitting the computation of a value.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

inline double seconds_of(const std::function<void()>& run, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

// Prints the median time of each way, its throughput, and its time as a multiple of the first way's.
inline void compare(const std::string& job, size_t bytes, const std::vector<Way>& ways) {
  constexpr int kRounds = 15;
  constexpr double kMinSeconds = 0.02;  // of one measurement
  std::vector<int> repeats;
  for (const Way& way : ways) repeats.push_back(1 + static_cast<int>(kMinSeconds / (seconds_of(way.run, 1) + 1e-9)));
  std::vector<std::vector<double>> times(ways.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) times[i].push_back(seconds_of(ways[i].run, repeats[i]));
  }
  std::printf("%s, %zu bytes\n", job.c_str(), bytes);
  double first = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    std::nth_element(times[i].begin(), times[i].begin() + kRounds / 2, times[i].end());
    const double median = times[i][kRounds / 2];
    if (i == 0) first = median;
    std::printf("  %-52s %12.2f us %8.2f GB/s %7.2fx\n", ways[i].name.c_str(), 1e6 * median, bytes / median / 1e9,
                median / first);
  }
}

}  // namespace atompack::benchmarks
