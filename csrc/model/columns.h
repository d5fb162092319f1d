// Molecules on their way into a file: columns of values in the caller's memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/molecule_source.h"

namespace atompack::atp {

// A value, or those of many molecules or atoms stacked along the first dimension. In C order.
struct Value {
  ValueKind kind = ValueKind::none;
  DType dtype = DType::uint8;
  Shape shape;
  Bytes data;
};

// One field of a run of molecules: stacked, or a value for each molecule.
struct Column {
  Scope scope;
  std::string key;
  std::optional<Value> stacked;   // (atoms of all molecules, ...) or (molecules, ...)
  std::vector<Value> each;        // used where there is no stacked one; at level atom, a value has a row for each atom
  const bool* present = nullptr;  // for each molecule whether it has the field; absent: all have it
};

struct Columns {
  Value positions;               // (atoms, 3) float32 or float64
  Value numbers;                 // (atoms,) int64
  std::span<const int64_t> ptr;  // the first atom of each molecule, and their number
  std::vector<Column> fields;
  std::optional<std::span<const int64_t>> rows;  // the molecules to write, in this order; absent: all
};

}  // namespace atompack::atp
