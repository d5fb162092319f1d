// Python objects that native threads call.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <stdexcept>

namespace atompack::bindings {

// A thread that then asks for the GIL is ended by Python, which C++ does not survive.
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
  const pybind11::gil_scoped_acquire acquire;
  try {
    return call();
  } catch (const pybind11::error_already_set& error) {
    throw_error_of(error);
  }
}

}  // namespace atompack::bindings
