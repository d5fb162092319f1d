// Helpers that run native functions and destroy native objects without the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "threads/process.h"

namespace atompack::bindings {

template <typename T>
struct HoldsPythonObjects : std::is_base_of<pybind11::handle, std::remove_cvref_t<T>> {};
template <template <typename...> class Holder, typename... Held>
struct HoldsPythonObjects<Holder<Held...>>
    : std::disjunction<std::is_base_of<pybind11::handle, Holder<Held...>>, HoldsPythonObjects<Held>...> {};

// Releases the GIL to the end of a scope. If Python has ended meanwhile, the thread stays there until the process
// exits; with pybind11::gil_scoped_release it would kill the process.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    threads::or_wait_for_exit([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// Holds the GIL to the end of a scope, on any thread.
class AcquiredGil {
 public:
  AcquiredGil() : state_(threads::or_wait_for_exit([] { return PyGILState_Ensure(); })) {}
  AcquiredGil(const AcquiredGil&) = delete;
  AcquiredGil& operator=(const AcquiredGil&) = delete;
  ~AcquiredGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// Runs `work` without the GIL. Its result is complete before the GIL is acquired again.
template <typename Work>
auto without_gil(const Work& work) {
  static_assert(!HoldsPythonObjects<decltype(work())>::value, "objects of Python are made with the GIL held");
  const ReleasedGil released;
  return work();
}

// Removes and returns the oldest task of an OrderedPipeline; checks for Ctrl-C while waiting.
template <typename Pipeline>
auto take_interruptibly(Pipeline& pipeline) {
  constexpr std::chrono::milliseconds kPatience{50};
  for (;;) {
    {
      const ReleasedGil released;
      if (auto task = pipeline.take(kPatience)) return std::move(*task);
    }
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  }
}

template <typename Result, typename... Arguments, typename Function>
auto unlocked_as(Function function) {
  static_assert(!HoldsPythonObjects<Result>::value && !(HoldsPythonObjects<Arguments>::value || ...),
                "objects of Python are made, read and dropped with the GIL held");
  return [function = std::move(function)](Arguments... arguments) -> Result {
    const ReleasedGil released;
    return std::invoke(function, std::forward<Arguments>(arguments)...);
  };
}

// Returns a function for def() and py::init() that runs `function` without the GIL. Never pybind11::call_guard: around
// py::init() that releases the GIL also while pybind11 registers the instance, in a table that only the GIL guards.
template <typename Result, typename... Arguments>
auto unlocked(Result (*function)(Arguments...)) {
  return unlocked_as<Result, Arguments...>(function);
}
template <typename Result, typename Class, typename... Arguments>
auto unlocked(Result (Class::*function)(Arguments...)) {
  return unlocked_as<Result, Class&, Arguments...>(function);
}
template <typename Result, typename Class, typename... Arguments>
auto unlocked(Result (Class::*function)(Arguments...) const) {
  return unlocked_as<Result, const Class&, Arguments...>(function);
}
template <typename Lambda, typename Result, typename... Arguments>
auto unlocked_lambda(Lambda lambda, Result (Lambda::*)(Arguments...) const) {
  return unlocked_as<Result, Arguments...>(std::move(lambda));
}
template <typename Lambda>
  requires std::is_class_v<Lambda>
auto unlocked(Lambda lambda) {
  return unlocked_lambda(std::move(lambda), &Lambda::operator());
}

// Destructors join threads, unmap and close files and wait for locks. They may also run on native threads, which do not
// hold the GIL.
struct DeleteUnlocked {
  template <typename T>
  void operator()(T* object) const {
    if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) {
      delete object;
      return;
    }
    const ReleasedGil released;
    delete object;
  }
};

// Holder of objects that own files or threads.
template <typename T>
using UniqueHandle = std::unique_ptr<T, DeleteUnlocked>;

template <typename T, typename... Arguments>
UniqueHandle<T> make_unique_handle(Arguments&&... arguments) {
  return UniqueHandle<T>(new T(std::forward<Arguments>(arguments)...));
}

template <typename T, typename... Arguments>
std::shared_ptr<T> make_shared_handle(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), DeleteUnlocked());
}

// Returns a function for py::init() that constructs the object of a holder without the GIL.
template <typename Holder, typename... Arguments>
auto constructor() {
  return unlocked_as<Holder, Arguments...>([](Arguments... arguments) {
    return Holder(new typename Holder::element_type(std::move(arguments)...), DeleteUnlocked());
  });
}

}  // namespace atompack::bindings
