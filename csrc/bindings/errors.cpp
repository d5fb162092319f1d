#include "bindings/errors.h"

#include "base/error.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

void raise(const char* name, const char* text) {
  py::set_error(py::module_::import("atompack_torch.errors").attr(name), text);
}

void raise_os_error(const IoError& error) {
  const std::string text = error.what();
  // OSError puts the path behind the text itself.
  const std::string reason = text.substr(error.path().size() + 2);
  const py::object exception = py::reinterpret_borrow<py::object>(PyExc_OSError)(error.code(), reason, error.path());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const CorruptFileError& error) {
    raise("CorruptFileError", error.what());
  } catch (const UnsupportedFormatError& error) {
    raise("UnsupportedFormatError", error.what());
  } catch (const FieldError& error) {
    raise("FieldError", error.what());
  } catch (const IoError& error) {
    raise_os_error(error);
  } catch (const InternalError& error) {
    PyErr_SetString(PyExc_AssertionError,
                    cat(error.what(), "; this is a bug of atompack_torch, please report it").c_str());
  }
}

}  // namespace

void bind_errors(py::module_&) { py::register_exception_translator(&translate); }

}  // namespace atompack::bindings
