// Lock of an object that all Python threads may use, one at a time.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "bindings/gil.h"

namespace atompack::bindings {

// Object with a lock. Calls wait for each other without holding the GIL.
template <typename T>
class Locked {
 public:
  template <typename... Arguments>
  explicit Locked(Arguments&&... arguments) : value_(std::make_unique<T>(std::forward<Arguments>(arguments)...)) {}

  bool is_open() const { return is_open_; }

  // Calls action(value) without the GIL.
  template <typename Action>
  auto use(const Action& action) {
    const ReleasedGil released;
    const std::scoped_lock lock(mutex_);
    return action(open());
  }

  // The same, if there is a value, which is then destroyed: tracebacks of Python may still refer to this object.
  template <typename Action>
  void close(const Action& action) {
    const ReleasedGil released;
    const std::scoped_lock lock(mutex_);
    is_open_ = false;
    const std::unique_ptr<T> closing = std::move(value_);
    if (closing) action(*closing);
  }

  // For actions that make or read Python objects. The GIL is acquired while the lock is held, never the reverse: a
  // thread that waits for the lock does not hold the GIL.
  template <typename Action>
  auto read(const Action& action) const {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
      const ReleasedGil released;
      lock.lock();
    }
    const CollectorPause pause;
    return action(open());
  }

 private:
  // Creating a container may start the garbage collector, and a finalizer that calls this object would deadlock.
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

  T& open() const {
    if (!value_) throw std::invalid_argument("the file is closed");
    return *value_;
  }

  mutable std::mutex mutex_;
  std::unique_ptr<T> value_;
  std::atomic<bool> is_open_ = true;
};

template <typename T, typename Result, typename... Arguments, typename Function>
auto locked_as(Function function) {
  static_assert(!HoldsPythonObjects<Result>::value && !(HoldsPythonObjects<Arguments>::value || ...),
                "objects of Python are made, read and dropped with the GIL held");
  return [function](Locked<T>& self, Arguments... arguments) {
    return self.use(
        [&](T& value) -> Result { return std::invoke(function, value, std::forward<Arguments>(arguments)...); });
  };
}

// Returns a function for def() that calls a member of the object by Locked::use().
template <typename T, typename Result, typename... Arguments>
auto locked(Result (T::*function)(Arguments...)) {
  return locked_as<T, Result, Arguments...>(function);
}
template <typename T, typename Result, typename... Arguments>
auto locked(Result (T::*function)(Arguments...) const) {
  return locked_as<T, Result, Arguments...>(function);
}

}  // namespace atompack::bindings
