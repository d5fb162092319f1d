// Lock around a library that must not be forked in the middle of a call.
#pragma once

namespace atompack::io {

// Held while the library is used; one per process. fork() waits until it is free, so that the child finds it free: a
// lock held by a thread that the child does not have would never be released.
class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  ~ForkLock();
};

}  // namespace atompack::io
