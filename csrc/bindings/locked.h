// An object of one thread at a time, for all threads of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <mutex>
#include <utility>

namespace atompack::bindings {

// Calls wait for one another, and hold no GIL meanwhile.
template <typename T>
class Locked {
 public:
  template <typename... Arguments>
  explicit Locked(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}

  template <typename Action>
  auto use(const Action& action) {
    const pybind11::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return action(value_);
  }

  // For short actions that make objects of Python. The GIL is taken while the lock is held, never the other way round:
  // a thread that waits for the lock holds no GIL.
  template <typename Action>
  auto look(const Action& action) const {
    std::unique_lock lock(mutex_, std::defer_lock);
    {
      const pybind11::gil_scoped_release release;
      lock.lock();
    }
    const CollectorPause pause;
    return action(value_);
  }

 private:
  // A new container may start the garbage collector, whose finalizers may call this very object: the thread would wait
  // for itself.
  class CollectorPause {
   public:
    CollectorPause() : was_enabled_(PyGC_Disable() != 0) {}
    CollectorPause(const CollectorPause&) = delete;
    CollectorPause& operator=(const CollectorPause&) = delete;
    ~CollectorPause() {
      if (was_enabled_) PyGC_Enable();
    }

   private:
    bool was_enabled_;
  };

  mutable std::mutex mutex_;
  T value_;
};

}  // namespace atompack::bindings
