#include "collate/prefetcher.h"

#include <algorithm>
#include <stdexcept>

#include "io/process.h"

namespace atompack::collate {

// A batch that was asked for.
struct Prefetcher::Task {
  std::vector<int64_t> indices;
  bool is_done = false;
  Batch batch;
  std::exception_ptr failure;
};

struct Prefetcher::Shared {
  std::shared_ptr<const Collator> collator;
  ArenaKind kind;
  size_t n_threads;

  std::mutex mutex;  // guards all below
  std::condition_variable asked, done;
  std::deque<std::unique_ptr<Task>> tasks;  // in the order in which they were asked for; begun ones in front
  size_t n_begun = 0;
  bool stop = false;
  std::vector<std::thread> threads;
};

Prefetcher::Prefetcher(std::shared_ptr<const Collator> collator, ArenaKind kind, int n_threads)
    : shared_(new Shared{
          std::move(collator), kind, static_cast<size_t>(std::max(n_threads, 1)), {}, {}, {}, {}, 0, false, {}}),
      owner_(io::process_id()) {}

Prefetcher::~Prefetcher() {
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

Prefetcher::Shared& Prefetcher::shared() const {
  if (owner_ != io::process_id()) {
    throw std::runtime_error(
        "this loader's threads belong to the process that started it, this is a fork: iterate anew");
  }
  return *shared_;
}

void Prefetcher::ask(std::vector<int64_t> indices) {
  Shared& shared = this->shared();
  auto task = std::make_unique<Task>();
  task->indices = std::move(indices);
  const std::lock_guard lock(shared.mutex);
  shared.tasks.push_back(std::move(task));
  if (shared.threads.size() < std::min(shared.n_threads, shared.tasks.size())) {
    shared.threads.emplace_back([&shared] { work(shared); });
  }
  shared.asked.notify_one();
}

size_t Prefetcher::n_outstanding() const {
  Shared& shared = this->shared();
  const std::lock_guard lock(shared.mutex);
  return shared.tasks.size();
}

std::optional<Batch> Prefetcher::take(std::chrono::milliseconds patience) {
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
  return std::move(task->batch);
}

void Prefetcher::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.asked.wait(lock, [&] { return shared.stop || shared.n_begun < shared.tasks.size(); });
    if (shared.stop) return;
    Task& task = *shared.tasks[shared.n_begun++];
    lock.unlock();
    try {
      task.batch = shared.collator->collate_serially(std::move(task.indices), shared.kind);
    } catch (...) {
      task.failure = std::current_exception();
    }
    lock.lock();
    task.is_done = true;
    shared.done.notify_one();
  }
}

}  // namespace atompack::collate
