#include "threads/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <numeric>
#include <random>
#include <set>

#include "fork.h"
#include "threads/parallel_for_each.h"

namespace atompack::threads {
namespace {

using namespace std::chrono_literals;

struct Task {
  int number = 0;
  std::vector<int> made{};
};
using Pipeline = OrderedPipeline<Task>;

std::vector<int> repeated(int n) { return std::vector<int>(static_cast<size_t>(n % 7), n); }
void make(Task& task) { task.made = repeated(task.number); }

std::vector<int> take_one(Pipeline& pipeline) {
  for (;;) {
    if (auto task = pipeline.take(50ms)) return task->made;
  }
}

void push(Pipeline& pipeline, int first, int last) {
  for (int n = first; n < last; ++n) pipeline.push({n}, 1);
}

std::vector<int> first_numbers(int n) {
  std::vector<int> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(TakingPipeline, TasksComeInTheOrderOfPush) {
  Pipeline pipeline(3, [](Task& task) {
    std::this_thread::sleep_for(std::chrono::microseconds(task.number % 3 == 0 ? 300 : 0));
    make(task);
  });
  push(pipeline, 0, 4);
  for (int n = 0; n < 500; ++n) {
    EXPECT_EQ(take_one(pipeline), repeated(n));
    pipeline.push({n + 4});
  }
  EXPECT_EQ(pipeline.size(), 4U);
}

TEST(TakingPipeline, OnlyTheOldestTasksAreWorkedOn) {
  std::atomic<int> n_made{0};
  Pipeline pipeline(
      2,
      [&](Task& task) {
        make(task);
        ++n_made;
      },
      3);
  push(pipeline, 0, 50);
  for (int n = 0; n < 50; ++n) {
    EXPECT_LE(n_made, n + 3);
    EXPECT_EQ(take_one(pipeline), repeated(n));  // also where nothing is pushed that would wake a thread
  }
  EXPECT_EQ(n_made, 50);
}

TEST(TakingPipeline, AFailureComesInItsTurnAndCountsAsTaken) {
  Pipeline pipeline(2, [](Task& task) { task.number == 1 ? throw FieldError("no such value") : make(task); });
  push(pipeline, 0, 3);
  EXPECT_EQ(take_one(pipeline), repeated(0));
  EXPECT_THROW(take_one(pipeline), FieldError);
  EXPECT_EQ(take_one(pipeline), repeated(2));
  EXPECT_EQ(pipeline.size(), 0U);
  EXPECT_THROW(pipeline.take(1ms), InternalError);
}

TEST(TakingPipeline, NothingIsTakenBeforeItsWorkEnds) {
  std::atomic<bool> may_go = false;
  Pipeline pipeline(1, [&](Task& task) {
    may_go.wait(false);
    make(task);
  });
  pipeline.push({3});
  EXPECT_FALSE(pipeline.take(5ms));
  may_go = true;
  may_go.notify_all();
  EXPECT_EQ(take_one(pipeline), repeated(3));
}

TEST(TakingPipeline, SeveralCallersTakeEachTaskOnceAndInOrder) {
  constexpr int kTasks = 400;
  Pipeline pipeline(2, [](Task& task) { std::this_thread::sleep_for(std::chrono::microseconds(task.number % 50)); });
  push(pipeline, 0, kTasks);
  std::vector<std::vector<int>> taken(4);
  const auto take_until_empty = [&](std::vector<int>& mine) {
    try {
      while (mine.size() < kTasks) {
        if (const auto task = pipeline.take(5ms)) mine.push_back(task->number);
      }
    } catch (const InternalError&) {  // all were taken
    }
  };
  std::vector<std::jthread> callers;
  for (auto& mine : taken) callers.emplace_back([&] { take_until_empty(mine); });
  callers.clear();
  std::vector<int> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  EXPECT_EQ(all, first_numbers(kTasks));
}

// Task 2 is ready before task 1, for which both callers wait.
TEST(TakingPipeline, ACallerWhoTakesWakesTheNext) {
  std::atomic<bool> may_go = false;
  Pipeline pipeline(2, [&](Task& task) {
    if (task.number == 1) may_go.wait(false);
  });
  push(pipeline, 1, 3);
  const auto take = [&] { return pipeline.take(300s); };
  auto first = std::async(std::launch::async, take), second = std::async(std::launch::async, take);
  std::this_thread::sleep_for(20ms);
  may_go = true;
  may_go.notify_all();
  const auto limit = std::chrono::steady_clock::now() + 200s;
  ASSERT_EQ(first.wait_until(limit), std::future_status::ready);
  ASSERT_EQ(second.wait_until(limit), std::future_status::ready);
  EXPECT_EQ((std::set{first.get()->number, second.get()->number}), (std::set{1, 2}));
}

// However far the threads are: nothing is lost, nothing waits forever, nothing is used after it is gone.
TEST(TakingPipeline, StopsAtAnyTime) {
  std::mt19937 random(0);
  for (int round = 0; round < 2000; ++round) {
    Pipeline pipeline(1 + round % 4, make);
    const auto n_pushed = static_cast<int>(random() % 6);
    push(pipeline, 0, n_pushed);
    const auto n_taken = n_pushed == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(n_pushed));
    for (int n = 0; n < n_taken; ++n) EXPECT_EQ(take_one(pipeline), repeated(n));
  }
}

void wait_forever() {
  for (;;) {
    check_for_interruption();
    std::this_thread::sleep_for(1ms);
  }
}

TEST(TakingPipeline, StoppingEndsTheWaitsOfItsThreads) {
  std::atomic<int> n_waiting{0};
  Pipeline pipeline(2, [&](Task&) {
    ++n_waiting;
    wait_forever();
  });
  push(pipeline, 0, 3);
  while (n_waiting < 2) std::this_thread::sleep_for(1ms);
}

TEST(ParallelForEach, AFailureEndsTheWaitsOfOtherThreads) {
  std::atomic<int> n_waiting{0};
  const auto fail_alone = [caller = std::this_thread::get_id(), &n_waiting](size_t) {
    if (std::this_thread::get_id() != caller) {
      ++n_waiting;
      wait_forever();
    }
    while (n_waiting < 2) std::this_thread::sleep_for(1ms);
    throw FieldError("no such value");
  };
  EXPECT_THROW(parallel_for_each(3, 3, fail_alone), FieldError);
}

// Records the finished tasks; each of its steps fails once, at the given number.
struct Recorder {
  explicit Recorder(unsigned n_threads, uint64_t capacity = Pipeline::kUnbounded)
      : pipeline(n_threads, [this](Task& task) { work(task); }, [this](Task& task) { finish(task); }, capacity) {}

  void work(Task& task) {
    if (task.number % 3 == 0) std::this_thread::sleep_for(100us);
    if (fails_once(work_fails_at, task)) throw FieldError("work");
    make(task);
  }
  void finish(Task& task) {
    if (fails_once(finish_fails_at, task)) throw FieldError("finish");
    EXPECT_EQ(task.made, repeated(task.number));
    finished.push_back(task.number);
  }
  static bool fails_once(std::atomic<int>& at, const Task& task) {
    int number = task.number;
    return at.compare_exchange_strong(number, -1);
  }
  // Pushes and drains as a caller who tries again after each failure. Returns the number of failures.
  int push_all(int n) {
    int n_failures = 0;
    const auto insist = [&](const auto& action) {
      for (;;) {
        try {
          return action();
        } catch (const FieldError&) {
          ++n_failures;
          pipeline.resume();
        }
      }
    };
    for (int i = 0; i < n; ++i) {
      Task task{i};
      insist([&] { pipeline.push(task, 1); });
    }
    insist([&] { pipeline.drain(); });
    return n_failures;
  }

  std::atomic<int> work_fails_at = -1, finish_fails_at = -1;
  std::vector<int> finished;  // only ever changed by one thread at a time: ThreadSanitizer checks it
  Pipeline pipeline;
};

TEST(FinishingPipeline, TasksFinishOneAtATimeInTheOrderOfPush) {
  for (const unsigned n_threads : {1U, 2U, 5U}) {
    Recorder recorder(n_threads, 4);
    EXPECT_EQ(recorder.push_all(300), 0);
    EXPECT_EQ(recorder.finished, first_numbers(300));
    EXPECT_EQ(recorder.pipeline.size(), 0U);
  }
}

TEST(FinishingPipeline, FailedStepsRunAgainAndNothingIsLost) {
  for (int at = 0; at < 12; ++at) {
    Recorder recorder(3, 4);
    recorder.work_fails_at = at;
    recorder.finish_fails_at = 11 - at;
    const int n_failures = recorder.push_all(12);
    EXPECT_TRUE(n_failures == 1 || n_failures == 2) << "two that fail together are reported once";
    EXPECT_EQ(recorder.finished, first_numbers(12));
  }
}

TEST(FinishingPipeline, AFailureIsThrownUntilResume) {
  Recorder recorder(1);
  recorder.finish_fails_at = 0;
  recorder.pipeline.push({0});
  EXPECT_THROW(recorder.pipeline.drain(), FieldError);
  Task task{1};
  EXPECT_THROW(recorder.pipeline.push(task), FieldError);
  EXPECT_EQ(task.number, 1);
  EXPECT_EQ(recorder.pipeline.size(), 1U);
  recorder.pipeline.resume();
  recorder.pipeline.push(task);
  recorder.pipeline.drain();
  EXPECT_EQ(recorder.finished, first_numbers(2));
}

TEST(FinishingPipeline, PushWaitsForRoom) {
  std::atomic<bool> may_go = false;
  OrderedPipeline<int> pipeline(2, [&](int) { may_go.wait(false); }, [](int) {}, 10);
  pipeline.push(0, 100);  // alone, a task may cost more
  std::atomic<int> n_pushed = 0;
  std::jthread caller([&] {
    for (int i = 0; i < 5; ++i) {
      pipeline.push(i, 3);
      ++n_pushed;
    }
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(n_pushed, 0);
  may_go = true;
  may_go.notify_all();
  caller.join();
  pipeline.drain();
  may_go = false;
  caller = std::jthread([&] {
    for (int i = 0; i < 5; ++i) pipeline.push(i, 3);
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(pipeline.size(), 3U);
  may_go = true;
  may_go.notify_all();
  caller.join();
  pipeline.drain();
  EXPECT_EQ(pipeline.size(), 0U);
}

TEST(FinishingPipeline, FinishedTasksAreReused) {
  OrderedPipeline<std::vector<int>> pipeline(1, [](auto&) {}, [](auto& task) { task.clear(); });
  std::vector<int> task(1000);
  const int* const memory = task.data();
  pipeline.push(task);
  pipeline.drain();
  EXPECT_EQ(task.capacity(), 0U);
  pipeline.push(task);
  EXPECT_EQ(task.data(), memory);
  EXPECT_TRUE(task.empty());
}

TEST(FinishingPipeline, TheNewestAreDroppedAndTheRestFinishes) {
  for (int round = 0; round < 200; ++round) {
    Recorder recorder(2);
    push(recorder.pipeline, 0, 20);
    int n_kept = 20;
    recorder.pipeline.drop_newest([&](Task& task) {
      if (task.number >= 15) n_kept = task.number;
      return task.number < 15;
    });
    recorder.pipeline.drain();
    EXPECT_EQ(recorder.finished, first_numbers(n_kept));
  }
}

TEST(FinishingPipeline, DroppingKeepsAFailure) {
  std::atomic<bool> all_pushed = false;
  bool has_failed = false;
  std::vector<int> finished;
  const auto finish = [&](int number) {
    if (!std::exchange(has_failed, true)) throw FieldError("finish");
    finished.push_back(number);
  };
  OrderedPipeline<int> pipeline(2, [&](int) { all_pushed.wait(false); }, finish);
  for (int i = 0; i < 5; ++i) pipeline.push(int{i});
  all_pushed = true;
  all_pushed.notify_all();
  EXPECT_THROW(pipeline.drain(), FieldError);
  pipeline.drop_newest([](int number) { return number < 3; });
  EXPECT_EQ(pipeline.size(), 3U);
  EXPECT_THROW(pipeline.drain(), FieldError);
  pipeline.resume();
  pipeline.drain();
  EXPECT_EQ(finished, first_numbers(3));
}

TEST(FinishingPipeline, StopsAtAnyTime) {
  std::mt19937 random(0);
  for (int round = 0; round < 1000; ++round) {
    const auto n_pushed = static_cast<int>(random() % 6);
    Recorder recorder(1 + round % 4, 3);
    if (round % 5 == 0) recorder.finish_fails_at = n_pushed - 1;
    push(recorder.pipeline, 0, n_pushed);
  }
}

TEST(ForkedPipeline, AChildGetsErrorsAndLeavesTheParentAlone) {
  for (const bool in_child_destroyed : {false, true}) {
    auto pipeline = std::make_unique<Pipeline>(2, make);
    pipeline->push({1});
    EXPECT_TRUE(test::holds_in_child([&] {
      if (in_child_destroyed) {
        pipeline.reset();
        return true;
      }
      try {
        pipeline->push({2});
        return false;
      } catch (const std::runtime_error&) {
        return true;
      }
    }));
    EXPECT_EQ(take_one(*pipeline), repeated(1));
  }
}

}  // namespace
}  // namespace atompack::threads
