// Work done ahead of its use, on threads of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "threads/process.h"

namespace atompack::collate {

// Results come out in the order in which they were asked for, however long each takes. What was asked for and not
// taken yet is what memory holds: the caller sets the bound. For one caller at a time. Its threads do not survive
// a fork: in the child every call throws, and destroying it leaves the parent's alone.
template <typename Input, typename Result>
class OrderedWorkers {
 public:
  using Make = std::function<Result(Input)>;

  // Threads start with the first results that are asked for.
  OrderedWorkers(Make make, int n_threads)
      : shared_(std::make_unique<Shared>(std::move(make), static_cast<size_t>(std::max(n_threads, 1)))),
        owner_(io::process_id()) {}
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;
  // Waits for what is being made; what was not begun is dropped.
  ~OrderedWorkers();

  // Never waits.
  void ask(Input input);
  // How many were asked for and not taken.
  size_t n_outstanding() const;

  // The oldest; nothing if it is not there in this time. Throws what stopped it from being made: then that one counts
  // as taken. InternalError if none was asked for.
  std::optional<Result> take(std::chrono::milliseconds patience);

 private:
  struct Task {
    Input input;
    bool is_done = false;
    std::optional<Result> result;
    std::exception_ptr failure;
  };

  struct Shared {
    Shared(Make how, size_t n) : make(std::move(how)), n_threads(n) {}

    const Make make;
    const size_t n_threads;
    std::mutex mutex;  // guards all below
    std::condition_variable asked, done;
    std::deque<std::unique_ptr<Task>> tasks;  // in the order in which they were asked for; begun ones in front
    size_t n_begun = 0;
    bool stop = false;
    std::vector<std::thread> threads;
  };

  static void work(Shared& shared);
  Shared& shared() const;

  std::unique_ptr<Shared> shared_;
  int64_t owner_;  // the process
};

template <typename Input, typename Result>
OrderedWorkers<Input, Result>::~OrderedWorkers() {
  if (owner_ != io::process_id()) {
    static_cast<void>(shared_.release());  // its locks may be held for ever
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->asked.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

template <typename Input, typename Result>
typename OrderedWorkers<Input, Result>::Shared& OrderedWorkers<Input, Result>::shared() const {
  if (owner_ != io::process_id()) {
    throw std::runtime_error(
        "this loader's threads belong to the process that started it, this is a fork: iterate anew");
  }
  return *shared_;
}

template <typename Input, typename Result>
void OrderedWorkers<Input, Result>::ask(Input input) {
  Shared& shared = this->shared();
  auto task = std::make_unique<Task>();
  task->input = std::move(input);
  const std::lock_guard lock(shared.mutex);
  shared.tasks.push_back(std::move(task));
  if (shared.threads.size() < std::min(shared.n_threads, shared.tasks.size())) {
    shared.threads.emplace_back([&shared] { work(shared); });
  }
  shared.asked.notify_one();
}

template <typename Input, typename Result>
size_t OrderedWorkers<Input, Result>::n_outstanding() const {
  Shared& shared = this->shared();
  const std::lock_guard lock(shared.mutex);
  return shared.tasks.size();
}

template <typename Input, typename Result>
std::optional<Result> OrderedWorkers<Input, Result>::take(std::chrono::milliseconds patience) {
  Shared& shared = this->shared();
  std::unique_ptr<Task> task;
  {
    std::unique_lock lock(shared.mutex);
    if (shared.tasks.empty()) throw InternalError("a batch is taken that was not asked for");
    if (!shared.done.wait_for(lock, patience, [&] { return shared.tasks.front()->is_done; })) return std::nullopt;
    task = std::move(shared.tasks.front());
    shared.tasks.pop_front();
    --shared.n_begun;
  }
  if (task->failure) std::rethrow_exception(task->failure);
  return std::move(task->result);
}

template <typename Input, typename Result>
void OrderedWorkers<Input, Result>::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.asked.wait(lock, [&] { return shared.stop || shared.n_begun < shared.tasks.size(); });
    if (shared.stop) return;
    Task& task = *shared.tasks[shared.n_begun++];
    lock.unlock();
    try {
      task.result = shared.make(std::move(task.input));
    } catch (...) {  // thrown again where the result is taken
      task.failure = std::current_exception();
    }
    lock.lock();
    task.is_done = true;
    shared.done.notify_one();
  }
}

}  // namespace atompack::collate
