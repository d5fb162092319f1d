// Columns of a frame's atom lines; FORMAT.md#columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/extxyz/array.h"

namespace atompack::extxyz {

// symbols and numbers set the atomic numbers; all others are fields.
enum class Role : uint8_t { positions, symbols, numbers, field };

struct ColumnSpec {
  std::string key;
  Kind kind;
  int64_t width;  // words in a line; 1: one value per atom, otherwise a row of values
  Role role;

  // Shape of one atom's value.
  std::vector<int64_t> shape() const { return width == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{width}; }
};

struct Layout {
  std::vector<ColumnSpec> columns;
  int64_t n_words = 0;
  bool declared = false;  // false: the plain format, whose lines may have additional unnamed columns
};

// Parses a Properties value.
Layout parse_properties(std::string_view text);

// Layout of files without declaration: symbol and position.
Layout plain_layout();

}  // namespace atompack::extxyz
