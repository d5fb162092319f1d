// Arguments that are one of a few words.
#pragma once

#include <pybind11/pybind11.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace atompack::bindings {

// The value of a word. Throws ValueError for another one.
template <typename Value>
Value choice(const char* option, std::string_view word,
             std::initializer_list<std::pair<std::string_view, Value>> choices) {
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
  }
  std::string expected;
  for (const auto& [name, value] : choices) expected += cat(expected.empty() ? "'" : ", '", name, "'");
  throw pybind11::value_error(cat(option, ": expected one of ", expected, ", got '", word, "'"));
}

}  // namespace atompack::bindings
