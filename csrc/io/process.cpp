#include "io/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace atompack::io {
namespace {

std::atomic<bool> forked{false};

// Runs when the library is loaded; the handler is inherited by every fork.
const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

}  // namespace

bool is_forked_child() { return registered != 0 || forked.load(std::memory_order_relaxed); }

bool is_running(int64_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

int64_t process_id() { return ::getpid(); }

int64_t thread_id() { return ::gettid(); }

}  // namespace atompack::io
