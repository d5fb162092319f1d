// Molecules to be written to a file, as columns of values in the caller's memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/molecule_source.h"

namespace atompack::atp {

// One value, or the values of many molecules or atoms stacked along the first dimension. In C order.
struct Value {
  ValueKind kind = ValueKind::none;
  DType dtype = DType::uint8;
  Shape shape;
  Bytes data;
};

// One field of a run of molecules: stacked, or one value per molecule.
struct Column {
  Scope scope;
  std::string key;
  std::optional<Value> stacked;   // (atoms of all molecules, ...) or (molecules, ...)
  std::vector<Value> each;        // used if `stacked` is not set; at level atom, a value has one row per atom
  const bool* present = nullptr;  // per molecule; null: all have the field
};

struct Columns {
  Value positions;               // (atoms, 3) float32 or float64
  Value numbers;                 // (atoms,) int64
  std::span<const int64_t> ptr;  // index of each molecule's first atom, and the number of atoms
  std::vector<Column> fields;
  std::optional<std::span<const int64_t>> rows;  // the molecules to write, in this order; nullopt: all
};

}  // namespace atompack::atp
