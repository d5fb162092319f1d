// Facts about the current process and thread.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace atompack::threads {

// True if this process is, or may be, a fork of the one that loaded the library.
bool is_forked_child();

// True if a process with this number exists.
bool is_running(int64_t process);

// System numbers of this process and of the calling thread.
int64_t process_id();
int64_t thread_id();

// Throws LockedError in a fork of the process that opened `path` for writing.
void check_writer_of(int64_t process, const std::string& path);

// Calls a function that may end its thread by pthread_exit(), and keeps the thread until the process exits instead.
// Python up to 3.13 ends threads that ask for the GIL while it ends, which unwinds the stack and kills the process at
// the first destructor.
template <typename Call>
auto or_wait_for_exit(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Interruption of calls that wait, such as by Ctrl-C.

// Called about every 100 ms while a call waits; throws to end the call. Set once, by the bindings.
using InterruptionCheck = void (*)();
void set_interruption_check(InterruptionCheck check);
void check_for_interruption();

// From now on, check_for_interruption() also throws on this thread while `is_stopped` is true, as the results are not
// wanted then. For threads that end before `is_stopped` is destroyed.
void end_waits_when(const std::atomic<bool>& is_stopped);

// Lock around a library that must not be forked in the middle of a call.

// Held while the library is used; one per process. fork() waits until it is free, so that the child finds it free: a
// lock held by a thread that the child does not have would never be released.
class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  ~ForkLock();
};

}  // namespace atompack::threads
