// C++ view of the table in fields.def.
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

enum class Storage : uint8_t { section, property };  // in .atp
enum class Turning : uint8_t { scalar, vector, tensor };

// Builtin label or state; Scope::builtin.
struct BuiltinField {
  std::string_view key;
  Level level;
  ValueKind kind;
  DType dtype;  // of a missing value that was requested by name
  RowExtents row;
  std::string_view unit;
  Turning rotation;
  Storage storage;
  std::string_view origin;
  std::string_view names;  // separated by spaces
};

// Stored derivatives of features.
struct DerivativeField {
  std::string_view key;
  Level level;
  bool is_atom_index;
};

inline constexpr auto kBuiltinFields = std::to_array<BuiltinField>({
#define ATOMPACK_LABEL(key, level, kind, dtype, row, unit, rotation, storage, origin, names) \
  {#key, Level::level,      ValueKind::kind,  DType::dtype, row_extents row,                 \
   unit, Turning::rotation, Storage::storage, #origin,      names},
#include "model/fields.def"
});

inline constexpr auto kDerivativeFields = std::to_array<DerivativeField>({
#define ATOMPACK_DERIVATIVE(key, level, is_atom_index) {#key, Level::level, is_atom_index},
#include "model/fields.def"
});

// Returns nullptr if no builtin field has this key.
constexpr const BuiltinField* find_builtin(std::string_view key) {
  const auto found = std::ranges::find(kBuiltinFields, key, &BuiltinField::key);
  return found == kBuiltinFields.end() ? nullptr : &*found;
}

// True if values under the key of a label are that label. Of labels that .atp files store as properties, they must have
// its type and shape; others are properties.
inline bool is_value_of(const BuiltinField& field, const FieldType& type, std::span<const int64_t> row_shape) {
  if (field.storage == Storage::section) return true;
  const bool fits =
      type.level == field.level && type.kind == field.kind && std::ranges::equal(row_shape, field.row.dims());
  return fits && (type.kind != ValueKind::numeric || is_floating(type.dtype) == is_floating(field.dtype));
}

// True for the cell and the periodic flags: a molecule without them is open, which is not a missing value. They are
// then zeros and false, never NaN (a zero shift times NaN would be NaN), and `Missing` does not apply to them.
constexpr bool is_geometry(Scope scope, std::string_view key) {
  return scope == Scope::builtin && (key == "cell" || key == "pbc");
}

}  // namespace atompack
