// Type caster of file names, which may be any bytes: str with surrogate escapes, bytes or a path object.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace atompack::bindings {

struct Path {
  std::string bytes;
};

}  // namespace atompack::bindings

template <>
struct pybind11::detail::type_caster<atompack::bindings::Path> {
  PYBIND11_TYPE_CASTER(atompack::bindings::Path, const_name("str | os.PathLike[str]"));

  bool load(handle source, bool) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      PyErr_Clear();
      return false;
    }
    value.bytes = reinterpret_steal<pybind11::bytes>(encoded);
    return true;
  }
};
