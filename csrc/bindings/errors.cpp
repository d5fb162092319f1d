#include "bindings/errors.h"

#include "base/error.h"

namespace atompack::bindings {
namespace {

namespace py = pybind11;

void raise(const char* name, const char* text) {
  py::set_error(py::module_::import("atompack_torch.errors").attr(name), str_from_bytes(text));
}

void raise_os_error(const IoError& error) {
  const auto os_error = py::reinterpret_borrow<py::object>(PyExc_OSError);
  const py::object exception = os_error(error.code(), str_from_bytes(error.reason()), str_from_bytes(error.path()));
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
  } catch (const UnsafePickleError& error) {
    raise("UnsafePickleError", error.what());
  } catch (const LockedError& error) {
    raise("WriterLockedError", error.what());
  } catch (const IoError& error) {
    raise_os_error(error);
  } catch (const TypeError& error) {
    py::set_error(PyExc_TypeError, error.what());
  } catch (const InternalError& error) {
    PyErr_SetString(PyExc_AssertionError,
                    cat(error.what(), "; this is a bug of atompack_torch, please report it").c_str());
  }
}

}  // namespace

py::str str_from_bytes(std::string_view bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

void bind_errors(py::module_&) { py::register_exception_translator(&translate); }

}  // namespace atompack::bindings
