// The table of fields.def for C++.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "model/molecule_source.h"

namespace atompack {

// Extents of one row of a builtin field.
struct RowExtents {
  std::array<int64_t, 2> extents{};
  size_t rank = 0;

  constexpr std::span<const int64_t> dims() const { return std::span(extents).first(rank); }
};

constexpr RowExtents row_extents() { return {}; }
constexpr RowExtents row_extents(int64_t first) { return {{first, 0}, 1}; }
constexpr RowExtents row_extents(int64_t first, int64_t second) { return {{first, second}, 2}; }

// A label or a state that every format knows by name; Scope::builtin.
struct BuiltinField {
  std::string_view key;
  Level level;
  ValueKind kind;
  DType dtype;  // of a missing value that was asked for by name
  RowExtents row;
  std::string_view unit;
};

// Stored derivatives of features.
struct DerivativeField {
  std::string_view key;
  Level level;
  bool is_atom_index;
};

inline constexpr auto kBuiltinFields = std::to_array<BuiltinField>({
#define ATOMPACK_LABEL(key, level, kind, dtype, row, unit) \
  {#key, Level::level, ValueKind::kind, DType::dtype, row_extents row, unit},
#include "model/fields.def"
});

inline constexpr auto kDerivativeFields = std::to_array<DerivativeField>({
#define ATOMPACK_DERIVATIVE(key, level, is_atom_index) {#key, Level::level, is_atom_index},
#include "model/fields.def"
});

// Nothing where no builtin field has this key.
constexpr const BuiltinField* find_builtin(std::string_view key) {
  const auto found = std::ranges::find(kBuiltinFields, key, &BuiltinField::key);
  return found == kBuiltinFields.end() ? nullptr : &*found;
}

// The cell and the periodic directions: a molecule without them is open, which is no value that is missing. They are
// zeros and false there, never NaN (a shift of no cells times NaN would be NaN), and `Missing` does not judge them.
constexpr bool is_geometry(Scope scope, std::string_view key) {
  return scope == Scope::builtin && (key == "cell" || key == "pbc");
}

}  // namespace atompack
