// The rules for values that share a tensor: which types mix, which rows stack, what a missing value becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.h"
#include "base/shape.h"
#include "model/molecule_source.h"

namespace atompack::collate {

// A stored value of a batch. `molecule` counts within the batch.
struct Observation {
  int64_t molecule;
  int32_t field;
  FieldType type;
  Shape row_shape;
  bool has_rows;  // false: a value without rows (of a molecule without atoms), whose row shape means nothing
};

// The type that holds values of both types without loss: floats of several widths become float64, integers of several
// widths int64. Kinds do not mix, and uint64 mixes with nothing.
std::optional<DType> common_dtype(DType a, DType b);
std::optional<FieldType> common_type(const FieldType& a, const FieldType& b);

// The type of a field that has to hold both. Throws FieldError where no type does.
FieldType widen(const FieldType& a, const FieldType& b);

// The type of a single number of a molecule where no schema declares one, as Python has it: float64 or int64. Types
// that these do not hold (booleans, complex numbers, uint64) stay.
DType number_dtype(DType stored);

// Floats cast to floats; integers only to types that hold every value.
bool can_cast(DType from, DType to);

// Columns also cast integers to floats, and integers to all types that hold every value.
bool can_cast_column(DType from, DType to);

bool any_with_rows(std::span<const Observation* const> observed);

// The one row shape of all values, which then form one tensor; otherwise each molecule gets its own. The row shape of
// values without rows counts only where there are no others, and no molecule lacks the field.
std::optional<Shape> common_row_shape(std::span<const Observation* const> observed, int64_t n_molecules);

// Writes what stands for missing values: NaN for floating and complex types, else 0.
void fill_missing(std::byte* to, DType dtype, size_t count);

}  // namespace atompack::collate
