// Forked children of a test.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace atompack::test {

// A forked child that ends with what `run` returns; one that hangs is killed.
template <typename Run>
pid_t start_child(const Run& run) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);
  ::_exit(run() ? 0 : 1);
}

inline bool succeeds(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

template <typename Run>
bool holds_in_child(const Run& run) {
  return succeeds(start_child(run));
}

}  // namespace atompack::test
