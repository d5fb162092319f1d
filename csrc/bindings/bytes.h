// Bytes of Python, to and from views.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "base/bytes.h"

namespace atompack::bindings {

inline pybind11::bytes to_bytes(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The caller keeps the object alive.
inline Bytes bytes_in(const pybind11::bytes& bytes) { return as_bytes(static_cast<std::string_view>(bytes)); }

}  // namespace atompack::bindings
