#include "threads/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace atompack::io {
namespace {

TEST(Process, AForkKnowsThatItIsOne) {
  EXPECT_FALSE(is_forked_child());
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) ::_exit(is_forked_child() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(is_forked_child());
}

TEST(Process, AForkHasItsOwnNumber) {
  EXPECT_EQ(process_id(), ::getpid());
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) ::_exit(process_id() == ::getpid() ? 7 : 8);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(process_id(), ::getpid());
}

TEST(Process, ThreadsHaveNumbersOfTheirOwn) {
  EXPECT_EQ(thread_id(), ::getpid());  // of the main thread
  int64_t other = thread_id();
  std::jthread([&] { other = thread_id(); }).join();
  EXPECT_NE(other, thread_id());
}

}  // namespace
}  // namespace atompack::io
