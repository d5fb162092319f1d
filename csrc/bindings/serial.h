// An object of one thread at a time, for all threads of Python.
#pragma once

#include <pybind11/pybind11.h>

#include <mutex>
#include <utility>

namespace atompack::bindings {

// Calls wait for one another, and hold no GIL meanwhile.
template <typename T>
class Serial {
 public:
  template <typename... Arguments>
  explicit Serial(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}

  template <typename Action>
  auto use(const Action& action) {
    const pybind11::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return action(value_);
  }

  // For what is quick and makes objects of Python; nobody waits for the GIL while the lock is held.
  template <typename Action>
  auto look(const Action& action) const {
    std::unique_lock lock(mutex_, std::defer_lock);
    {
      const pybind11::gil_scoped_release release;
      lock.lock();
    }
    return action(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace atompack::bindings
