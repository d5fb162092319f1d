// Type casters of enumerations, which are strings in Python, or numbers where formats store them so. Unknown ones raise
// ValueError.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <type_traits>

#include "base/names.h"
#include "formats/atlas_shards/meta.h"
#include "model/molecule_source.h"

namespace atompack::bindings {

// Name of the option in error messages, and the last value; specialized for each enumeration that is a number.
template <typename Value>
struct Numbers;
template <>
struct Numbers<Scope> {
  static constexpr auto kOption = "scope", kExpected = "0, 1 or 2";
  static constexpr Scope kLast = Scope::molecule_property;
};
template <>
struct Numbers<atlas_shards::Strategy> {
  static constexpr auto kOption = "strategy", kExpected = "0, 1, 2 or 3";
  static constexpr auto kLast = atlas_shards::Strategy::own_dictionary;
};

template <typename Value>
concept Numbered = requires { Numbers<Value>::kLast; };

}  // namespace atompack::bindings

namespace pybind11::detail {

template <typename Value>
  requires(atompack::Named<Value> || atompack::bindings::Numbered<Value>)
struct type_caster_enum_type_enabled<Value> : std::false_type {};

template <atompack::Named Value>
struct type_caster<Value> {
  PYBIND11_TYPE_CASTER(Value, const_name("str"));

  bool load(handle source, bool) {
    if (!PyUnicode_Check(source.ptr())) return false;
    value = atompack::value_named<Value>(source.cast<std::string>());
    return true;
  }
  static handle cast(Value value, return_value_policy, handle) {
    return str(std::string(atompack::name_of(value))).release();
  }
};

template <atompack::bindings::Numbered Value>
struct type_caster<Value> {
  using Numbers = atompack::bindings::Numbers<Value>;
  PYBIND11_TYPE_CASTER(Value, const_name("int"));

  bool load(handle source, bool) {
    if (!PyLong_Check(source.ptr())) return false;
    const auto number = source.cast<int>();
    if (number < 0 || number > static_cast<int>(Numbers::kLast)) {
      throw value_error(atompack::cat(Numbers::kOption, ": expected ", Numbers::kExpected, ", got ", number));
    }
    value = static_cast<Value>(number);
    return true;
  }
  static handle cast(Value value, return_value_policy, handle) { return int_(static_cast<int>(value)).release(); }
};

}  // namespace pybind11::detail
