// Names of the values of enumerations, by which options are given.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace atompack {

// The name of the option, and the names of its values in the order of the enumeration, which counts from 0.
template <size_t N>
struct Names {
  std::string_view option;
  std::array<std::string_view, N> values;
};

// An enumeration with a function names_of() next to it, which returns Names.
template <typename Value>
concept Named = std::is_enum_v<Value> && requires(Value value) { names_of(value).values; };

template <Named Value>
constexpr std::string_view name_of(Value value) {
  const auto names = names_of(value).values;
  const auto number = static_cast<size_t>(value);
  return number < names.size() ? names[number] : "?";
}

// Throws std::invalid_argument for an unknown name.
template <Named Value>
Value value_named(std::string_view name) {
  constexpr auto kNames = names_of(Value());
  const auto found = std::ranges::find(kNames.values, name);
  if (found != kNames.values.end()) return static_cast<Value>(found - kNames.values.begin());
  std::string expected;
  for (const std::string_view known : kNames.values) expected += cat(expected.empty() ? "'" : ", '", known, "'");
  throw std::invalid_argument(cat(kNames.option, ": expected one of ", expected, ", got '", name, "'"));
}

}  // namespace atompack
