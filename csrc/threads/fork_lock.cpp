#include "threads/fork_lock.h"

#include <pthread.h>

#include <mutex>

namespace atompack::io {
namespace {

// Never destroyed: threads may still be at work while the process ends.
std::mutex& the_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Runs when the library is loaded; the handlers are inherited by every fork. Only they may throw.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
[[maybe_unused]] const int registered =
    pthread_atfork([] { the_mutex().lock(); }, [] { the_mutex().unlock(); }, [] { the_mutex().unlock(); });

}  // namespace

ForkLock::ForkLock() { the_mutex().lock(); }
ForkLock::~ForkLock() { the_mutex().unlock(); }

}  // namespace atompack::io
