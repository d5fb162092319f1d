// Time that this thread has computed, which other processes on the machine do not add to.
#pragma once

#include <chrono>
#include <ctime>

namespace atompack::test {

inline std::chrono::nanoseconds cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace atompack::test
