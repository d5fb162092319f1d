// Access to the memory of NumPy arrays.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace atompack::bindings {

// Throws InternalError for strided arrays and those in another byte order, which callers must copy first.
inline void check_plain(const pybind11::array& array) {
  const char order = array.dtype().byteorder();
  if ((array.flags() & pybind11::array::c_style) == 0) throw InternalError("an array is not contiguous");
  if (order != '=' && order != '|') throw InternalError("an array is not in native byte order");
}

// Returns a view of the elements; the caller keeps the array alive. Bools are viewed as uint8_t.
template <typename Element>
std::span<const Element> span_of(const pybind11::array& array) {
  check_plain(array);
  const char kind = array.dtype().kind();
  const bool fits = std::is_floating_point_v<Element>  ? kind == 'f'
                    : std::is_same_v<Element, uint8_t> ? kind == 'b' || kind == 'u'
                    : std::is_signed_v<Element>        ? kind == 'i'
                                                       : kind == 'u';
  if (!fits || static_cast<size_t>(array.itemsize()) != sizeof(Element)) {
    throw InternalError("the elements of an array are of another type");
  }
  return {static_cast<const Element*>(array.data()), static_cast<size_t>(array.size())};
}

// The same for an array that the caller has made to be filled.
template <typename Element>
std::span<Element> mutable_span_of(pybind11::array& array) {
  const size_t n = span_of<Element>(array).size();
  return {static_cast<Element*>(array.mutable_data()), n};
}

}  // namespace atompack::bindings
