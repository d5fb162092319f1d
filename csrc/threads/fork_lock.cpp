#include "threads/fork_lock.h"

#include <pthread.h>

#include <mutex>

namespace atompack::io {
namespace {

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

ForkLock::ForkLock() { library_mutex().lock(); }
ForkLock::~ForkLock() { library_mutex().unlock(); }

}  // namespace atompack::io
