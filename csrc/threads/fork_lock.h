// The lock around a library that must not be forked in the middle of a call.
#pragma once

namespace atompack::io {

// Held while the library is used; there is one for the process. fork() waits until it is free, and the child finds it
// free: a child that inherited it locked, by a thread that it does not have, would wait for ever.
class ForkLock {
 public:
  ForkLock();
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  ~ForkLock();
};

}  // namespace atompack::io
