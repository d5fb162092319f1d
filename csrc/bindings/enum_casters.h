// Type casters of enumerations and element types, which are strings in Python. Unknown names raise ValueError.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "codec/codec.h"
#include "formats/atlas_shards/shard_list.h"
#include "formats/atp/path_writer.h"
#include "formats/extxyz/frame_source.h"
#include "formats/parsed/array.h"
#include "io/local_file.h"
#include "model/molecule_source.h"
#include "model/sources/augmented.h"
#include "plan/column_plan.h"
#include "plan/request.h"

namespace atompack::bindings {

template <typename Value>
using Choice = std::pair<std::string_view, Value>;

// Name of the option in error messages, and names of its values; specialized for each enumeration.
template <typename Value>
struct Choices;

template <>
struct Choices<plan::Layout> {
  static constexpr std::string_view kOption = "layout";
  static constexpr std::array<Choice<plan::Layout>, 3> kAll{
      {{"stacked", plan::Layout::stacked}, {"jagged", plan::Layout::jagged}, {"list", plan::Layout::list}}};
};

template <>
struct Choices<plan::Missing> {
  static constexpr std::string_view kOption = "missing";
  static constexpr std::array<Choice<plan::Missing>, 3> kAll{
      {{"nan", plan::Missing::nan}, {"error", plan::Missing::error}, {"drop", plan::Missing::drop}}};
};

template <>
struct Choices<Rotation> {
  static constexpr std::string_view kOption = "rotate";
  static constexpr std::array<Choice<Rotation>, 3> kAll{
      {{"none", Rotation::none}, {"proper", Rotation::proper}, {"all", Rotation::all}}};
};

template <>
struct Choices<plan::OutputKind> {
  using Kind = plan::OutputKind;
  static constexpr std::string_view kOption = "kind";
  static constexpr std::array<Choice<Kind>, 19> kAll{{{"value", Kind::value},
                                                      {"weight", Kind::weight},
                                                      {"voigt", Kind::voigt},
                                                      {"one_hot", Kind::one_hot},
                                                      {"element_index", Kind::element_index},
                                                      {"edge_shift", Kind::edge_shift},
                                                      {"edge_offset", Kind::edge_offset},
                                                      {"edge_vector", Kind::edge_vector},
                                                      {"edge_reversed", Kind::edge_reversed},
                                                      {"edge_pairs", Kind::edge_pairs},
                                                      {"edge_count", Kind::edge_count},
                                                      {"wrapped_positions", Kind::wrapped_positions},
                                                      {"wrapped_shift", Kind::wrapped_shift},
                                                      {"cell", Kind::cell},
                                                      {"reciprocal_cell", Kind::reciprocal_cell},
                                                      {"volume", Kind::volume},
                                                      {"lattice", Kind::lattice},
                                                      {"fractional_positions", Kind::fractional_positions},
                                                      {"constant", Kind::constant}}};
};

template <>
struct Choices<extxyz::Remark> {
  using Remark = extxyz::Remark;
  static constexpr std::string_view kOption = "remark";
  static constexpr std::array<Choice<Remark>, 5> kAll{{{"plain comment", Remark::plain_comment},
                                                       {"unnamed words", Remark::unnamed_words},
                                                       {"text of atoms", Remark::text_of_atoms},
                                                       {"none", Remark::none},
                                                       {"six numbers", Remark::six_numbers}}};
};

template <>
struct Choices<Level> {
  static constexpr std::string_view kOption = "level";
  static constexpr std::array<Choice<Level>, 4> kAll{{{name_of(Level::molecule), Level::molecule},
                                                      {name_of(Level::atom), Level::atom},
                                                      {name_of(Level::edge), Level::edge},
                                                      {name_of(Level::triplet), Level::triplet}}};
};

template <>
struct Choices<io::Access> {
  static constexpr std::string_view kOption = "access";
  static constexpr std::array<Choice<io::Access>, 5> kAll{{{"auto", io::Access::automatic},
                                                           {"random", io::Access::random},
                                                           {"sequential", io::Access::sequential},
                                                           {"read", io::Access::read},
                                                           {"direct", io::Access::direct}}};
};

template <>
struct Choices<codec::Codec> {
  static constexpr std::string_view kOption = "codec";
  static constexpr std::array<Choice<codec::Codec>, 3> kAll{
      {{"none", codec::Codec::none}, {"lz4", codec::Codec::lz4}, {"zstd", codec::Codec::zstd}}};
};

template <>
struct Choices<atp::OpenMode> {
  static constexpr std::string_view kOption = "mode";
  static constexpr std::array<Choice<atp::OpenMode>, 3> kAll{
      {{"x", atp::OpenMode::create}, {"w", atp::OpenMode::replace}, {"a", atp::OpenMode::append}}};
};

template <>
struct Choices<atlas_shards::MissingShards> {
  using Missing = atlas_shards::MissingShards;
  static constexpr std::string_view kOption = "missing_shards";
  static constexpr std::array<Choice<Missing>, 3> kAll{
      {{"renumber", Missing::renumber}, {"error", Missing::error}, {"keep", Missing::keep}}};
};

template <>
struct Choices<parsed::Kind> {
  static constexpr std::string_view kOption = "kind";
  static constexpr std::array<Choice<parsed::Kind>, 5> kAll{{{"null", parsed::Kind::null},
                                                             {"flag", parsed::Kind::flag},
                                                             {"integer", parsed::Kind::integer},
                                                             {"real", parsed::Kind::real},
                                                             {"text", parsed::Kind::text}}};
};

template <typename Value>
concept HasChoices = requires { Choices<Value>::kAll; };

// Types with names in Python; element types have those of torch.
template <typename Value>
concept HasName = HasChoices<Value> || std::is_same_v<Value, DType>;

template <HasName Value>
Value value_named(std::string_view name) {
  if constexpr (std::is_same_v<Value, DType>) {
    for (int i = 0; i < kNumberOfDTypes; ++i) {
      if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    }
    throw pybind11::value_error(cat("dtype: ", name, " is not a type of this library"));
  } else {
    std::string expected;
    for (const auto& [known, value] : Choices<Value>::kAll) {
      if (known == name) return value;
      expected += cat(expected.empty() ? "'" : ", '", known, "'");
    }
    throw pybind11::value_error(cat(Choices<Value>::kOption, ": expected one of ", expected, ", got '", name, "'"));
  }
}

template <HasName Value>
std::string_view name_of_value(Value value) {
  if constexpr (std::is_same_v<Value, DType>) {
    return name_of(value);
  } else {
    for (const auto& [name, known] : Choices<Value>::kAll) {
      if (known == value) return name;
    }
    throw InternalError(cat(Choices<Value>::kOption, ": a value without a name"));
  }
}

template <HasName Value>
struct NamedCaster {
  PYBIND11_TYPE_CASTER(Value, pybind11::detail::const_name("str"));

  bool load(pybind11::handle source, bool) {
    if (!PyUnicode_Check(source.ptr())) return false;
    value = value_named<Value>(source.cast<std::string>());
    return true;
  }
  static pybind11::handle cast(Value value, pybind11::return_value_policy, pybind11::handle) {
    return pybind11::str(std::string(name_of_value(value))).release();
  }
};

}  // namespace atompack::bindings

namespace pybind11::detail {

template <>
struct type_caster<atompack::DType> : atompack::bindings::NamedCaster<atompack::DType> {};
template <>
struct type_caster<atompack::Level> : atompack::bindings::NamedCaster<atompack::Level> {};
template <>
struct type_caster<atompack::Rotation> : atompack::bindings::NamedCaster<atompack::Rotation> {};
template <>
struct type_caster<atompack::atlas_shards::MissingShards>
    : atompack::bindings::NamedCaster<atompack::atlas_shards::MissingShards> {};
template <>
struct type_caster<atompack::atp::OpenMode> : atompack::bindings::NamedCaster<atompack::atp::OpenMode> {};
template <>
struct type_caster<atompack::codec::Codec> : atompack::bindings::NamedCaster<atompack::codec::Codec> {};
template <>
struct type_caster<atompack::plan::Layout> : atompack::bindings::NamedCaster<atompack::plan::Layout> {};
template <>
struct type_caster<atompack::plan::Missing> : atompack::bindings::NamedCaster<atompack::plan::Missing> {};
template <>
struct type_caster<atompack::plan::OutputKind> : atompack::bindings::NamedCaster<atompack::plan::OutputKind> {};
template <>
struct type_caster<atompack::extxyz::Remark> : atompack::bindings::NamedCaster<atompack::extxyz::Remark> {};
template <>
struct type_caster<atompack::parsed::Kind> : atompack::bindings::NamedCaster<atompack::parsed::Kind> {};
template <>
struct type_caster<atompack::io::Access> : atompack::bindings::NamedCaster<atompack::io::Access> {};

// The scope of a field is a number in Python.
template <>
struct type_caster<atompack::Scope> {
  PYBIND11_TYPE_CASTER(atompack::Scope, const_name("int"));

  bool load(handle source, bool) {
    if (!PyLong_Check(source.ptr())) return false;
    const auto number = source.cast<int>();
    if (number < 0 || number > static_cast<int>(atompack::Scope::molecule_property)) {
      throw value_error(atompack::cat("scope: expected 0, 1 or 2, got ", number));
    }
    value = static_cast<atompack::Scope>(number);
    return true;
  }
  static handle cast(atompack::Scope scope, return_value_policy, handle) {
    return int_(static_cast<int>(scope)).release();
  }
};

}  // namespace pybind11::detail
