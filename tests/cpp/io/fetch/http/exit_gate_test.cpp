#include "io/fetch/http/scheduler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace atompack::io::fetch::http {
namespace {

TEST(ExitGate, AForkEndsThoughItsParentHasPassedTheGate) {
  close_gate_at_exit();
  const auto passed = pass_gate();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "it hangs";
}

}  // namespace
}  // namespace atompack::io::fetch::http
