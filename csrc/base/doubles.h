// Conversion of stored floating-point values to double.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"

namespace atompack {

// `from` holds `count` unaligned values of type `in`, float32 or float64.
inline void load_doubles(double* to, const std::byte* from, DType in, size_t count) {
  if (in == DType::float64) {
    for (size_t i = 0; i < count; ++i) to[i] = load_le<double>(from + i * sizeof(double));
  } else if (in == DType::float32) {
    for (size_t i = 0; i < count; ++i) to[i] = load_le<float>(from + i * sizeof(float));
  } else {
    throw InternalError(cat("not a floating-point type: ", name_of(in)));
  }
}

}  // namespace atompack
