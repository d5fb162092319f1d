// Types in which .atp files store the values of custom properties; csrc/formats/atp/FORMAT.md#value-to-tag.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "model/molecule_source.h"

namespace atompack {

// Returns the narrowest stored type for values of real numbers, integers or booleans: numbers of molecules are 64 bits
// wide, booleans are integers. It holds all values, except those of uint64 that int64 does not.
constexpr DType stored_dtype(DType dtype, bool is_scalar) {
  const bool is_wide = is_scalar || item_bytes(dtype) == 8;
  if (is_floating(dtype)) return is_wide ? DType::float64 : DType::float32;
  return is_wide || dtype == DType::uint32 ? DType::int64 : DType::int32;
}

// True for values that are stored with a shape of their own, which may differ between molecules: all but numbers, lists
// of numbers, and floating rows of three.
constexpr bool has_own_shape(std::span<const int64_t> row_shape, Level level, DType dtype) {
  const size_t rank = row_shape.size() + (level == Level::atom ? 1 : 0);
  return rank > 2 || (rank == 2 && !(row_shape.back() == 3 && is_floating(dtype)));
}

}  // namespace atompack
