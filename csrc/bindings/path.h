// Type casters of file names, which may be any bytes: str with surrogate escapes, bytes or a path object; and of
// locations, which are names, or tuples of a URL and its store.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "io/open_file.h"

namespace atompack::bindings {

struct Path {
  std::string bytes;
  operator const std::string&() const { return bytes; }  // NOLINT
};

}  // namespace atompack::bindings

namespace pybind11::detail {

template <>
struct type_caster<atompack::bindings::Path> {
  PYBIND11_TYPE_CASTER(atompack::bindings::Path, const_name("str | os.PathLike[str]"));

  bool load(handle source, bool) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      PyErr_Clear();
      return false;
    }
    value.bytes = reinterpret_steal<bytes>(encoded);
    return true;
  }
};

template <>
struct type_caster<atompack::io::Location> {
  using Place = std::pair<atompack::bindings::Path, std::shared_ptr<atompack::io::Store>>;
  PYBIND11_TYPE_CASTER(atompack::io::Location, const_name("str | os.PathLike[str] | tuple[str | os.PathLike[str], ") +
                                                   make_caster<std::shared_ptr<atompack::io::Store>>::name +
                                                   const_name(" | None]"));

  bool load(handle source, bool convert) {
    make_caster<Place> place;
    if (!isinstance<tuple>(source)) {
      make_caster<atompack::bindings::Path> path;
      if (!path.load(source, convert)) return false;
      value = cast_op<atompack::bindings::Path&>(path).bytes;
      return true;
    }
    if (!place.load(source, convert)) return false;
    const auto [path, store] = cast_op<Place>(place);
    value = {path.bytes, store};
    return true;
  }
};

}  // namespace pybind11::detail
