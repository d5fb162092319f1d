#include "threads/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <stdexcept>

#include "base/error.h"

namespace atompack::threads {
namespace {

std::atomic<bool> forked{false};

// Kept, because asking the system each time would be a good part of a small read.
std::atomic<int64_t>& known_process() {
  static std::atomic<int64_t> number{::getpid()};
  return number;
}

void note_fork() {
  forked.store(true);
  known_process().store(::getpid());
}

// Runs when the library is loaded; every fork inherits the handler.
const int handler_error = pthread_atfork(nullptr, nullptr, &note_fork);

std::atomic<InterruptionCheck> interruption_check{nullptr};
thread_local const std::atomic<bool>* stop_flag = nullptr;

// Never destroyed: threads may still use it while the process exits.
std::mutex& library_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Runs when the library is loaded; every fork inherits the handlers. Only they may throw.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
[[maybe_unused]] const int registered =
    pthread_atfork([] { library_mutex().lock(); }, [] { library_mutex().unlock(); }, [] { library_mutex().unlock(); });

}  // namespace

bool is_forked_child() { return handler_error != 0 || forked.load(std::memory_order_relaxed); }

bool is_running(int64_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

int64_t process_id() { return handler_error != 0 ? ::getpid() : known_process().load(std::memory_order_relaxed); }

int64_t thread_id() { return ::gettid(); }

void check_writer_of(int64_t process, const std::string& path) {
  if (process == process_id()) return;
  throw LockedError(cat(path, ": a writer cannot be used in a fork of the process that opened it"));
}

void set_interruption_check(InterruptionCheck check) { interruption_check = check; }

void check_for_interruption() {
  if (stop_flag != nullptr && *stop_flag) throw std::runtime_error("the work was stopped");
  if (const InterruptionCheck check = interruption_check) check();
}

void end_waits_when(const std::atomic<bool>& is_stopped) { stop_flag = &is_stopped; }

ForkLock::ForkLock() { library_mutex().lock(); }
ForkLock::~ForkLock() { library_mutex().unlock(); }

}  // namespace atompack::threads
