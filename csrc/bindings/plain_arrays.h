// Type casters of views of the memory of NumPy arrays, which callers keep alive: contiguous and in native byte order.
#pragma once

#include <pybind11/numpy.h>

#include <span>
#include <string>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"

namespace atompack::bindings {

inline bool is_plain(const pybind11::array& array) {
  const char order = array.dtype().byteorder();
  return (array.flags() & pybind11::array::c_style) != 0 && (order == '=' || order == '|');
}

// True for elements of this type. Bools are viewed as bool or uint8_t.
template <typename Element>
bool holds(const pybind11::array& array) {
  const char kind = array.dtype().kind();
  const bool fits = std::is_floating_point_v<Element>  ? kind == 'f'
                    : std::is_same_v<Element, bool>    ? kind == 'b'
                    : std::is_same_v<Element, uint8_t> ? kind == 'b' || kind == 'u'
                    : std::is_signed_v<Element>        ? kind == 'i'
                                                       : kind == 'u';
  return fits && static_cast<size_t>(array.itemsize()) == sizeof(Element);
}

// Throws FieldError for types that .atp files and caches do not store.
inline DType dtype_of(const pybind11::array& array) {
  const char kind = array.dtype().kind();
  const auto bytes = array.itemsize();
  if (kind == 'b') return DType::boolean;
  if (kind == 'i' && bytes == 4) return DType::int32;
  if (kind == 'i' && bytes == 8) return DType::int64;
  if (kind == 'f' && bytes == 4) return DType::float32;
  if (kind == 'f' && bytes == 8) return DType::float64;
  throw FieldError(cat("type: expected bool, int32, int64, float32 or float64, got ",
                       pybind11::str(array.dtype()).cast<std::string>()));
}

}  // namespace atompack::bindings

// Elements that are not const are those of an array that the caller has made to be filled.
template <typename Element>
  requires std::is_arithmetic_v<Element>
struct pybind11::detail::type_caster<std::span<Element>> {
  PYBIND11_TYPE_CASTER(std::span<Element>, const_name("numpy.ndarray"));

  bool load(handle source, bool) {
    if (!isinstance<array>(source)) return false;
    auto given = reinterpret_borrow<array>(source);
    if (!atompack::bindings::is_plain(given)) return false;
    if (!atompack::bindings::holds<std::remove_const_t<Element>>(given)) return false;
    const void* const data = std::is_const_v<Element> ? given.data() : given.mutable_data();
    value = {static_cast<Element*>(const_cast<void*>(data)), static_cast<size_t>(given.size())};
    return true;
  }
};
