// Python objects that native threads call.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "bindings/errors.h"
#include "bindings/gil.h"

namespace atompack::bindings {

// A thread that then asks for the GIL never gets it.
bool is_python_ending();

// A Python object for native threads, which do not hold the GIL. To be made and used with the GIL.
std::shared_ptr<pybind11::object> shared_object(pybind11::object object);

// An exception of Python for several callers: py::error_already_set can be raised only once.
class SharedPythonError : public std::runtime_error {
 public:
  explicit SharedPythonError(const pybind11::object& exception);
  void raise() const;

 private:
  std::shared_ptr<pybind11::object> exception_;
};

// Registers the translation of SharedPythonError.
void bind_shared_errors();

// Throws IoError for an OSError that has an errno and a file name, otherwise SharedPythonError. Needs the GIL.
[[noreturn]] void throw_error_of(const pybind11::error_already_set& error);

// Calls a function of Python from any thread, and throws its exceptions by throw_error_of().
template <typename Call>
auto with_gil(const Call& call) {
  if (is_python_ending()) throw std::runtime_error("Python is ending");
  const AcquiredGil acquired;
  try {
    return threads::or_wait_for_exit(call);
  } catch (const pybind11::error_already_set& error) {
    throw_error_of(error);
  }
}

inline pybind11::object to_argument(const std::string& text) { return str_from_bytes(text); }
inline pybind11::object to_argument(size_t number) { return pybind11::int_(number); }

// Returns a function that calls one of Python from any thread; an empty one for None.
template <typename Result, typename... Arguments>
std::function<Result(Arguments...)> function_of(const pybind11::object& callable) {
  if (callable.is_none()) return nullptr;
  return [shared = shared_object(callable)](Arguments... arguments) {
    return with_gil([&] { return (*shared)(to_argument(arguments)...).template cast<Result>(); });
  };
}

}  // namespace atompack::bindings
