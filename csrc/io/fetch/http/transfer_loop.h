// The thread that runs all requests of a store.
#pragma once

#include <memory>

#include "io/fetch/http/call.h"

namespace atompack::io::fetch::http {

class Scheduler;

// Starts its thread with the first call. Destruction ends all calls with IoError (ECANCELED) and joins the thread; it
// may also happen inside of a call's `done`. In a fork every call fails, and destruction leaves the parent's thread and
// sockets alone.
class TransferLoop {
 public:
  explicit TransferLoop(HttpOptions options);
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;
  ~TransferLoop();

  const HttpOptions& options() const;

  // Thread-safe; calls `done` on the thread of the loop, or before it returns if the thread cannot be started.
  void submit(CallPtr call);
  // Ends the call soon, with IoError (ECANCELED), unless it has ended.
  void cancel(const CallPtr& call);

  // Throws std::runtime_error in a fork.
  void check_process() const;

 private:
  std::shared_ptr<Scheduler> scheduler_;
  int64_t owner_;  // the process
};

}  // namespace atompack::io::fetch::http
