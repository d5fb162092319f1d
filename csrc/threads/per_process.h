// Values that belong to one process and are created again in a fork.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "threads/process.h"

namespace atompack::threads {

// A fork must not use its parent's value: locks may be held by threads that it does not have, and an update may be half
// done. So it creates its own, and the inherited value stays untouched until the process ends. Thread-safe except for
// destruction.
template <typename T>
class PerProcess {
 public:
  explicit PerProcess(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)), kept_(fresh()) {}
  ~PerProcess() {
    if (ProcessValue* const kept = kept_; kept->process == process_id()) delete kept;
  }

  T& get() const {
    ProcessValue* kept = kept_;
    if (kept->process == process_id()) return *kept->value;
    std::unique_ptr<ProcessValue> made(fresh());
    // Threads of the fork may arrive together; only one of them installs its value.
    return kept_.compare_exchange_strong(kept, made.get()) ? *made.release()->value : *kept->value;
  }

 private:
  struct ProcessValue {
    int64_t process;
    std::unique_ptr<T> value;
  };

  ProcessValue* fresh() const { return new ProcessValue{process_id(), make_()}; }

  std::function<std::unique_ptr<T>()> make_;
  mutable std::atomic<ProcessValue*> kept_;
};

}  // namespace atompack::threads
