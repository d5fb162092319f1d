// Rules for values that share a tensor: types that mix, rows that stack, and representation of missing values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.h"
#include "base/shape.h"
#include "model/molecule_source.h"

namespace atompack::plan {

// Stored value found in a batch. `molecule` is the index within the batch.
struct Observation {
  int64_t molecule;
  int32_t field;
  FieldType type;
  Shape row_shape;
  bool has_rows;  // false: no rows (a molecule without atoms), so that row_shape is meaningless
};

// Returns the type that holds values of both types without loss: floats of different widths become float64, integers
// of different widths int64. Floats and integers do not mix, and uint64 mixes with no other type.
std::optional<DType> common_dtype(DType a, DType b);
std::optional<DType> common_dtype(std::span<const DType> types);
std::optional<FieldType> common_type(const FieldType& a, const FieldType& b);

// Returns the type of a field that holds both. Throws FieldError if it is missing.
FieldType widen(const FieldType& a, const FieldType& b);

// Returns the type of a scalar property that no schema declares, which is that of a Python number: float64 or int64.
// Types that do not fit these (booleans, complex numbers, uint64) are unchanged.
DType number_dtype(DType stored);

// True for equal types, between floats, and from int32 to types that hold all its values.
bool can_cast(DType from, DType to);

// Rule for columns: integers also cast to floats, and to every type that holds all their values.
bool can_cast_column(DType from, DType to);

bool any_with_rows(std::span<const Observation* const> observed);

// Returns the row shape if all values share one, so that they form one tensor; nullopt if each molecule needs its own
// tensor. Shapes of values without rows count only if no value has rows and no molecule lacks the field.
std::optional<Shape> common_row_shape(std::span<const Observation* const> observed, int64_t n_molecules);

// Writes `count` missing values: NaN for floating and complex types, 0 for all others.
void fill_missing(std::byte* to, DType dtype, size_t count);

}  // namespace atompack::plan
