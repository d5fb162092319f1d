// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/names.h"

namespace atompack {

enum class DType : uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
};
inline constexpr size_t kNumberOfDTypes = static_cast<size_t>(DType::complex128) + 1;

constexpr size_t item_bytes(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8:
    case DType::int8:
      return 1;
    case DType::uint16:
    case DType::int16:
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::uint32:
    case DType::int32:
    case DType::float32:
      return 4;
    case DType::uint64:
    case DType::int64:
    case DType::float64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) { return dtype >= DType::float16 && dtype <= DType::float64; }

constexpr bool is_integer(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }

constexpr Names<kNumberOfDTypes> names_of(DType) {
  return {"dtype",
          {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
           "float32", "float64", "complex64", "complex128"}};
}

}  // namespace atompack
