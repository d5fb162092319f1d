// Access of kernels to torch's thread pool.
#pragma once

#include <ATen/Parallel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "threads/process.h"

namespace atompack::collate {

// From now on, kernels and torch operators called by this thread run on it alone; for threads that run in parallel.
void use_one_thread();

// Returns the number of threads that a kernel may use; `wanted` 0: the number that torch uses. Always 1 in a forked
// child, where a parallel region can hang if the parent has run one (libgomp does not survive a fork).
inline int64_t usable_threads(int wanted) {
  if (threads::is_forked_child()) return 1;
  const int available = at::get_num_threads();
  return wanted > 0 && wanted < available ? wanted : available;
}

// Calls body(range) for each range in [0, n_ranges), each on one thread; rethrows the first exception.
template <typename Body>
void for_each_range(int64_t n_ranges, const Body& body) {
  if (n_ranges == 1) return body(0);
  at::parallel_for(0, n_ranges, 1, [&](int64_t begin, int64_t end) {
    for (int64_t range = begin; range < end; ++range) body(range);
  });
}

// Calls task(number) for each number in [0, n_tasks) on that many threads: each takes the next task when it is free.
template <typename Task>
void for_each_task(int64_t n_threads, size_t n_tasks, const Task& task) {
  std::atomic<size_t> next{0};
  for_each_range(n_threads, [&](int64_t) {
    for (size_t number = next++; number < n_tasks; number = next++) task(number);
  });
}

// Returns the ids of the threads that a parallel region uses. For tests: a build without OpenMP would run it serially
// without any warning.
std::vector<int64_t> parallel_thread_ids();

}  // namespace atompack::collate
