#include "threads/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "fork.h"
#include "threads/per_process.h"

namespace atompack::threads {
namespace {

using test::holds_in_child;

TEST(Process, AForkKnowsThatItIsOne) {
  EXPECT_FALSE(is_forked_child());
  EXPECT_EQ(process_id(), ::getpid());
  EXPECT_TRUE(holds_in_child([] { return is_forked_child() && process_id() == ::getpid(); }));
  EXPECT_FALSE(is_forked_child());
  EXPECT_EQ(process_id(), ::getpid());
}

TEST(Process, ThreadsHaveNumbersOfTheirOwn) {
  EXPECT_EQ(thread_id(), ::getpid());  // of the main thread
  int64_t other = thread_id();
  std::jthread([&] { other = thread_id(); }).join();
  EXPECT_NE(other, thread_id());
}

std::atomic<int> made = 0, alive = 0;

struct Kept {
  Kept() : number(made++) { ++alive; }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { --alive; }

  const int number;
  std::mutex mutex;
};

class OfEachProcess : public testing::Test {
 protected:
  OfEachProcess() {
    made = alive = 0;
    kept_.emplace([] { return std::make_unique<Kept>(); });
  }

  Kept& get() { return kept_->get(); }
  void end() { kept_.reset(); }

 private:
  std::optional<PerProcess<Kept>> kept_;
};

TEST_F(OfEachProcess, OneIsMadeAndEndsWithItsOwner) {
  EXPECT_EQ(&get(), &get());
  EXPECT_EQ(made, 1);
  end();
  EXPECT_EQ(alive, 0);
}

TEST_F(OfEachProcess, AForkHasOneOfItsOwn) {
  EXPECT_EQ(get().number, 0);
  EXPECT_TRUE(holds_in_child([&] { return get().number == 1 && &get() == &get() && made == 2; }));
  EXPECT_EQ(get().number, 0) << "the parent continues with its own";
}

TEST_F(OfEachProcess, AForkOfAForkToo) {
  EXPECT_TRUE(holds_in_child(
      [&] { return get().number == 1 && holds_in_child([&] { return get().number == 2; }) && get().number == 1; }));
  EXPECT_TRUE(holds_in_child([&] { return holds_in_child([&] { return get().number == 1; }); }))
      << "also where nobody asked between them";
}

TEST_F(OfEachProcess, WhatAForkInheritedIsLeftAlone) {
  EXPECT_TRUE(holds_in_child([&] {
    end();
    return alive == 1;
  }));
  EXPECT_TRUE(holds_in_child([&] {
    get();
    end();
    return alive == 1;  // its own one ended
  }));
}

TEST_F(OfEachProcess, ALockThatIsHeldElsewhereIsFreeInAFork) {
  const std::scoped_lock lock(get().mutex);
  EXPECT_TRUE(holds_in_child([&] {
    const std::scoped_lock own(get().mutex);
    return true;
  }));
}

TEST_F(OfEachProcess, ThreadsOfAForkShareOne) {
  constexpr size_t kThreads = 4;
  EXPECT_TRUE(holds_in_child([&] {
    std::barrier together(kThreads);
    std::vector<Kept*> seen(kThreads);
    std::vector<std::jthread> threads;
    for (Kept*& mine : seen) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        mine = &get();
      });
    }
    threads.clear();
    return std::set<Kept*>(seen.begin(), seen.end()).size() == 1 && alive == 2;
  }));
}

}  // namespace
}  // namespace atompack::threads
