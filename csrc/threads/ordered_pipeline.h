// An ordered, bounded queue of tasks on threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "threads/process.h"

namespace atompack::threads {

// Runs `work` for several tasks in parallel on its own threads. Then either
// - `finish` runs on the same threads for one task at a time, in the order of push(). The first failure of a step stops
//   the pipeline: push() and drain() throw it until resume(), which runs the failed steps again. No task is lost.
// - or, without `finish`, take() returns the tasks in the order of push(). A failure of `work` is thrown by the take()
//   of that task and stops nothing. Only the oldest `max_ready` tasks are worked on.
// Memory is bounded: push() blocks while the tasks in the pipeline cost more than `capacity`; a single task may cost
// more. All calls are thread-safe. The threads do not survive a fork: in the child every call throws, and destruction
// leaves the parent's threads alone.
template <typename Task>
class OrderedPipeline {
 public:
  using Step = std::function<void(Task&)>;
  static constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

  // Threads start as tasks arrive.
  OrderedPipeline(unsigned n_threads, Step work, Step finish, uint64_t capacity = kUnbounded)
      : OrderedPipeline(n_threads, std::move(work), std::move(finish), capacity, std::numeric_limits<size_t>::max()) {}
  explicit OrderedPipeline(unsigned n_threads, Step work, size_t max_ready = std::numeric_limits<size_t>::max())
      : OrderedPipeline(n_threads, std::move(work), nullptr, kUnbounded, max_ready) {}
  // Ends the waits of the running steps, and waits for these. Other tasks are dropped.
  ~OrderedPipeline();

  // Exchanges the task for a finished one, whose memory can be reused, or a new one. Changes nothing if it throws.
  void push(Task& task, uint64_t cost = 0);
  void push(Task&& task, uint64_t cost = 0) { push(task, cost); }

  // Returns the oldest task; nullopt if its work takes longer than `patience`. Concurrent callers get different tasks.
  // InternalError if there is no task.
  std::optional<Task> take(std::chrono::milliseconds patience);

  // Waits until all tasks are finished.
  void drain();

  // Clears the failure, so that the failed steps run again.
  void resume();

  // Waits for the running steps, then calls keep(task) from the newest task on until it returns true. Drops the tasks
  // for which it returns false.
  template <typename Keep>
  void drop_newest(const Keep& keep);

  // The number of tasks that are neither finished nor taken.
  size_t size() const;

 private:
  enum class Stage : uint8_t { pushed, working, worked, finishing };
  struct Slot {
    Task task{};
    uint64_t cost = 0;
    Stage stage = Stage::pushed;
    std::exception_ptr failure{};  // without `finish`
  };
  static constexpr size_t kMaxSpares = 2;

  struct Shared {
    Shared(unsigned n, Step first, Step second, uint64_t max_cost, size_t max_tasks)
        : n_threads(n), work(std::move(first)), finish(std::move(second)), capacity(max_cost), max_ready(max_tasks) {
      spares.reserve(kMaxSpares);
    }

    const size_t n_threads;
    const Step work, finish;
    const uint64_t capacity;
    const size_t max_ready;
    std::mutex mutex;  // guards all members below
    std::condition_variable step_ready, step_done;
    std::deque<Slot> slots;  // in order; changes at the ends keep references to other slots valid
    std::vector<Task> spares;
    uint64_t total_cost = 0;
    size_t n_running = 0;
    bool paused = false;
    std::atomic<bool> stopped = false;
    std::exception_ptr failure;  // with `finish`
    std::vector<std::thread> threads;

    void throw_failure() const {
      if (failure) std::rethrow_exception(failure);
    }
    void start_thread_for(size_t n_tasks);
    Slot* next();
    void run();
    void complete(Slot& slot, std::exception_ptr thrown);
    void recycle_front();
  };

  OrderedPipeline(unsigned n_threads, Step work, Step finish, uint64_t capacity, size_t max_ready)
      : shared_(
            std::make_unique<Shared>(std::max(n_threads, 1U), std::move(work), std::move(finish), capacity, max_ready)),
        owner_(threads::process_id()) {}
  Shared& shared() const;

  std::unique_ptr<Shared> shared_;
  int64_t owner_;  // the process
};

template <typename Task>
OrderedPipeline<Task>::~OrderedPipeline() {
  if (owner_ != threads::process_id()) {
    static_cast<void>(shared_.release());  // its locks may be held forever
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopped = true;
  }
  shared_->step_ready.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

template <typename Task>
typename OrderedPipeline<Task>::Shared& OrderedPipeline<Task>::shared() const {
  if (owner_ != threads::process_id()) {
    throw std::runtime_error("threads do not survive fork(): reopen the file or start a new pass in the child");
  }
  return *shared_;
}

template <typename Task>
void OrderedPipeline<Task>::push(Task& task, uint64_t cost) {
  Shared& shared = this->shared();
  std::unique_lock lock(shared.mutex);
  shared.step_done.wait(
      lock, [&] { return shared.failure || shared.slots.empty() || shared.total_cost + cost <= shared.capacity; });
  shared.throw_failure();
  shared.start_thread_for(shared.slots.size() + 1);
  Slot& slot = shared.slots.emplace_back();
  if (!shared.spares.empty()) {
    slot.task = std::move(shared.spares.back());
    shared.spares.pop_back();
  }
  std::swap(slot.task, task);
  slot.cost = cost;
  shared.total_cost += cost;
  lock.unlock();
  shared.step_ready.notify_one();
}

template <typename Task>
std::optional<Task> OrderedPipeline<Task>::take(std::chrono::milliseconds patience) {
  Shared& shared = this->shared();
  std::unique_lock lock(shared.mutex);
  auto& slots = shared.slots;
  if (slots.empty()) throw InternalError("pipeline: no task to take");
  const bool is_there =
      shared.step_done.wait_for(lock, patience, [&] { return !slots.empty() && slots.front().stage == Stage::worked; });
  if (!is_there) return std::nullopt;
  Slot slot = std::move(slots.front());
  slots.pop_front();
  shared.total_cost -= slot.cost;
  const bool has_more_work = slots.size() >= shared.max_ready;
  lock.unlock();
  if (has_more_work) shared.step_ready.notify_one();
  shared.step_done.notify_all();  // the next task may be another caller's, and there is room to push
  if (slot.failure) std::rethrow_exception(slot.failure);
  return std::move(slot.task);
}

template <typename Task>
void OrderedPipeline<Task>::drain() {
  Shared& shared = this->shared();
  std::unique_lock lock(shared.mutex);
  shared.step_done.wait(lock, [&] { return shared.failure || shared.slots.empty(); });
  shared.throw_failure();
}

template <typename Task>
void OrderedPipeline<Task>::resume() {
  Shared& shared = this->shared();
  {
    const std::lock_guard lock(shared.mutex);
    if (!std::exchange(shared.failure, nullptr)) return;
  }
  shared.step_ready.notify_all();
}

template <typename Task>
template <typename Keep>
void OrderedPipeline<Task>::drop_newest(const Keep& keep) {
  Shared& shared = this->shared();
  {
    std::unique_lock lock(shared.mutex);
    shared.paused = true;
    shared.step_done.wait(lock, [&] { return shared.n_running == 0; });
    shared.paused = false;
    while (!shared.slots.empty() && !keep(shared.slots.back().task)) {
      shared.total_cost -= shared.slots.back().cost;
      shared.slots.pop_back();
    }
  }
  shared.step_ready.notify_all();
  shared.step_done.notify_all();
}

template <typename Task>
size_t OrderedPipeline<Task>::size() const {
  Shared& shared = this->shared();
  const std::lock_guard lock(shared.mutex);
  return shared.slots.size();
}

template <typename Task>
void OrderedPipeline<Task>::Shared::start_thread_for(size_t n_tasks) {
  if (threads.size() >= std::min(n_threads, n_tasks)) return;
  try {
    threads.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    if (threads.empty()) throw;  // the threads that exist do the work
  }
}

// Returns the first slot with a step to run; finishing comes first, since that frees memory.
template <typename Task>
typename OrderedPipeline<Task>::Slot* OrderedPipeline<Task>::Shared::next() {
  if (failure || paused || slots.empty()) return nullptr;
  if (finish && slots.front().stage == Stage::worked) return &slots.front();
  const auto end = slots.begin() + static_cast<std::ptrdiff_t>(std::min(slots.size(), max_ready));
  const auto found = std::ranges::find(slots.begin(), end, Stage::pushed, &Slot::stage);
  return found == end ? nullptr : &*found;
}

template <typename Task>
void OrderedPipeline<Task>::Shared::run() {
  end_waits_when(stopped);
  std::unique_lock lock(mutex);
  for (;;) {
    Slot* slot = nullptr;
    step_ready.wait(lock, [&] { return stopped || (slot = next()) != nullptr; });
    if (stopped) return;
    const bool finishes = slot->stage == Stage::worked;
    slot->stage = finishes ? Stage::finishing : Stage::working;
    ++n_running;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      (finishes ? finish : work)(slot->task);
    } catch (...) {  // rethrown to the caller
      thrown = std::current_exception();
    }
    lock.lock();
    --n_running;
    complete(*slot, std::move(thrown));
    step_done.notify_all();
  }
}

template <typename Task>
void OrderedPipeline<Task>::Shared::complete(Slot& slot, std::exception_ptr thrown) {
  if (thrown && finish) {
    slot.stage = slot.stage == Stage::finishing ? Stage::worked : Stage::pushed;
    if (!failure) failure = std::move(thrown);
  } else if (slot.stage == Stage::finishing) {
    recycle_front();
  } else {
    slot.stage = Stage::worked;
    slot.failure = std::move(thrown);
  }
}

template <typename Task>
void OrderedPipeline<Task>::Shared::recycle_front() {
  if (spares.size() < kMaxSpares) spares.push_back(std::move(slots.front().task));
  total_cost -= slots.front().cost;
  slots.pop_front();
}

}  // namespace atompack::threads
