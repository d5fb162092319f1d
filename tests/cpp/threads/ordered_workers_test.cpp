// Also run under ThreadSanitizer, by tests/fuzz/run.sh: the order of results, errors, and stopping at any moment.
#include "threads/ordered_workers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>

namespace atompack::collate {
namespace {

using namespace std::chrono_literals;
using Workers = OrderedWorkers<int, std::vector<int>>;

std::vector<int> repeated(int n) { return std::vector<int>(static_cast<size_t>(n % 7), n); }

std::vector<int> take_one(Workers& workers) {
  for (;;) {
    if (auto result = workers.take(50ms)) return *result;
  }
}

TEST(OrderedWorkers, ResultsComeInTheOrderInWhichTheyWereAskedFor) {
  Workers workers(
      [](int n) {
        std::this_thread::sleep_for(std::chrono::microseconds(n % 3 == 0 ? 300 : 0));
        return repeated(n);
      },
      3);
  int asked = 0;
  for (; asked < 4; ++asked) workers.ask(asked);
  for (int n = 0; n < 500; ++n, ++asked) {
    EXPECT_EQ(take_one(workers), repeated(n));
    workers.ask(asked);
  }
  EXPECT_EQ(workers.n_outstanding(), 4u);
}

TEST(OrderedWorkers, AnErrorComesInItsTurnAndCountsAsTaken) {
  Workers workers([](int n) { return n == 1 ? throw FieldError("no such value") : repeated(n); }, 2);
  for (int n = 0; n < 3; ++n) workers.ask(n);
  EXPECT_EQ(take_one(workers), repeated(0));
  EXPECT_THROW(take_one(workers), FieldError);
  EXPECT_EQ(take_one(workers), repeated(2));
  EXPECT_EQ(workers.n_outstanding(), 0u);
  EXPECT_THROW(workers.take(1ms), InternalError);
}

TEST(OrderedWorkers, NothingIsThereBeforeItIsMade) {
  std::atomic<bool> may_go = false;
  Workers workers(
      [&](int n) {
        while (!may_go) std::this_thread::sleep_for(1ms);
        return repeated(n);
      },
      1);
  workers.ask(3);
  EXPECT_EQ(workers.take(5ms), std::nullopt);
  may_go = true;
  EXPECT_EQ(take_one(workers), repeated(3));
}

// However far the threads are: nothing is lost, nothing waits for ever, nothing is used after it is gone.
TEST(OrderedWorkers, StopAtAnyMoment) {
  std::mt19937 random(0);
  for (int round = 0; round < 2000; ++round) {
    Workers workers(repeated, 1 + round % 4);
    const auto n_asked = static_cast<int>(random() % 6);
    for (int n = 0; n < n_asked; ++n) workers.ask(n);
    const auto n_taken = n_asked == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(n_asked));
    for (int n = 0; n < n_taken; ++n) EXPECT_EQ(take_one(workers), repeated(n));
  }
}

TEST(OrderedWorkers, AForkedChildIsTold) {
  Workers workers(repeated, 2);
  workers.ask(1);
  const pid_t child = fork();
  if (child == 0) {
    try {
      workers.ask(2);
    } catch (const std::runtime_error&) {
      _exit(0);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(take_one(workers), repeated(1));
}

}  // namespace
}  // namespace atompack::collate
