// The one place where kernels meet torch's thread pool.
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>
#include <vector>

#include "threads/process.h"

namespace atompack::collate {

// For the calling thread, from now on, kernels and torch use no other: it is one of several that work side by side.
void work_alone();

// How many threads a kernel may use: 0 asks for torch's number. Always 1 in a forked child, where a parallel region
// can hang once the parent has run one (libgomp does not survive a fork).
inline int64_t usable_threads(int wanted) {
  if (io::is_forked_child()) return 1;
  const int most = at::get_num_threads();
  return wanted > 0 && wanted < most ? wanted : most;
}

// Calls body(range) for each range number, one thread each; the first exception reaches the caller.
template <typename Body>
void for_each_range(int64_t n_ranges, const Body& body) {
  if (n_ranges == 1) return body(0);
  at::parallel_for(0, n_ranges, 1, [&](int64_t begin, int64_t end) {
    for (int64_t range = begin; range < end; ++range) body(range);
  });
}

// The threads that a parallel region runs on: a build without OpenMP would run it serially and say nothing.
std::vector<int64_t> parallel_thread_ids();

}  // namespace atompack::collate
