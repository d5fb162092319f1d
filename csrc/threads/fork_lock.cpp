#include "threads/fork_lock.h"

#include <pthread.h>

#include <mutex>

namespace atompack::io {
namespace {

// Never destroyed: threads may still use it while the process exits.
std::mutex& the_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Runs when the library is loaded; every fork inherits the handlers.
[[maybe_unused]] const int registered =
    pthread_atfork([] { the_mutex().lock(); }, [] { the_mutex().unlock(); }, [] { the_mutex().unlock(); });

}  // namespace

ForkLock::ForkLock() { the_mutex().lock(); }
ForkLock::~ForkLock() { the_mutex().unlock(); }

}  // namespace atompack::io
