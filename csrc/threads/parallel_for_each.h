// Parallel loop over independent tasks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "threads/process.h"

namespace atompack::threads {

// Calls body(i) for each i < n, on this thread and up to n_threads - 1 others. After a failure no more calls are
// started, those on other threads end their waits, and the first failure is thrown once all have ended.
template <typename Body>
void parallel_for_each(size_t n, unsigned n_threads, const Body& body) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < n; i = next++) body(i);
    } catch (...) {  // rethrown to the caller
      next = n;
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t i = 1; i < std::min<size_t>(n_threads, n); ++i) {
      others.emplace_back([&] {
        end_waits_when(failed);
        work();
      });
    }
  } catch (const std::system_error&) {  // no more threads available: the existing ones do the work
  }
  work();
  for (std::thread& thread : others) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace atompack::threads
