#include "io/process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace atompack::io {
namespace {

std::atomic<bool> forked{false};

// Runs when the library is loaded; the handler is inherited by every fork.
const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

}  // namespace

bool is_forked_child() { return registered != 0 || forked.load(std::memory_order_relaxed); }

int64_t process_id() { return ::getpid(); }

int64_t thread_id() { return ::gettid(); }

}  // namespace atompack::io
