#include "bindings/python_callback.h"

#include "base/error.h"
#include "bindings/path.h"

namespace atompack::bindings {

namespace py = pybind11;

bool is_python_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

std::shared_ptr<py::object> shared_object(py::object object) {
  return {new py::object(std::move(object)), [](py::object* owned) {
            if (is_python_ending()) return;
            const AcquiredGil acquired;
            delete owned;
          }};
}

SharedPythonError::SharedPythonError(const py::object& exception)
    : std::runtime_error("an exception of Python"), exception_(shared_object(exception)) {}

void SharedPythonError::raise() const {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception_->ptr())), exception_->ptr());
}

void throw_error_of(const py::error_already_set& error) {
  const py::object exception = error.value();
  if (error.matches(PyExc_OSError)) {
    const py::object code = exception.attr("errno"), reason = exception.attr("strerror"),
                     path = exception.attr("filename");
    if (py::isinstance<py::int_>(code) && py::isinstance<py::str>(reason) && py::isinstance<py::str>(path)) {
      throw IoError(code.cast<int>(), reason.cast<Path>().bytes, path.cast<Path>().bytes);
    }
  }
  throw SharedPythonError(exception);
}

void bind_shared_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const SharedPythonError& error) {
      error.raise();
    }
  });
}

}  // namespace atompack::bindings
