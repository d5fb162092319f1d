// Type casters of plain structs, which are tuples in Python, and of shapes, which are lists.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "io/file.h"

namespace atompack::bindings {

// tie(value): references to the members in the order of the tuple; specialized for each struct.
template <typename Struct>
struct Members;

// For a struct without bases, all of whose members are listed in their order.
#define ATOMPACK_TUPLE(Struct, ...) \
  template <>                       \
  struct Members<Struct> {          \
    static auto tie(auto& value) {  \
      auto& [__VA_ARGS__] = value;  \
      return std::tie(__VA_ARGS__); \
    }                               \
  }

ATOMPACK_TUPLE(io::FileVersion, device, inode, size, seconds, nanoseconds);
ATOMPACK_TUPLE(io::FileIdentity, device, inode, size);

template <typename Struct>
concept HasMembers = requires(Struct& value) { Members<Struct>::tie(value); };

template <typename... Members>
std::tuple<std::remove_const_t<Members>...> copy_of(const std::tuple<Members&...>& tied) {
  return tied;
}

template <HasMembers Struct>
using MembersOf = decltype(copy_of(Members<Struct>::tie(std::declval<Struct&>())));

}  // namespace atompack::bindings

namespace pybind11::detail {

template <atompack::bindings::HasMembers Struct>
struct type_caster<Struct> {
  using Members = atompack::bindings::Members<Struct>;
  using Tuple = atompack::bindings::MembersOf<Struct>;
  PYBIND11_TYPE_CASTER(Struct, make_caster<Tuple>::name);

  bool load(handle source, bool convert) {
    make_caster<Tuple> members;
    if (!members.load(source, convert)) return false;
    Members::tie(value) = cast_op<Tuple>(std::move(members));
    return true;
  }
  static handle cast(const Struct& value, return_value_policy policy, handle parent) {
    return make_caster<Tuple>::cast(atompack::bindings::copy_of(Members::tie(value)), policy, parent);
  }
};

template <>
struct type_caster<atompack::Shape> {
  using Dims = std::vector<int64_t>;
  PYBIND11_TYPE_CASTER(atompack::Shape, make_caster<Dims>::name);

  bool load(handle source, bool convert) {
    make_caster<Dims> dims;
    if (!dims.load(source, convert)) return false;
    value = atompack::Shape(cast_op<const Dims&>(dims));
    return true;
  }
  static handle cast(const atompack::Shape& shape, return_value_policy policy, handle parent) {
    return make_caster<Dims>::cast(Dims(shape.dims().begin(), shape.dims().end()), policy, parent);
  }
};

}  // namespace pybind11::detail
