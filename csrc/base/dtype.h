// Element types of tensors.
#pragma once

#include <array>
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

// By dtype.
inline constexpr std::array<uint8_t, kNumberOfDTypes> kItemBytes = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};

constexpr size_t item_bytes(DType dtype) { return kItemBytes[static_cast<size_t>(dtype)]; }

constexpr bool is_floating(DType dtype) { return dtype >= DType::float16 && dtype <= DType::float64; }

constexpr bool is_integer(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }

constexpr Names<kNumberOfDTypes> names_of(DType) {
  return {"dtype",
          {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
           "float32", "float64", "complex64", "complex128"}};
}

}  // namespace atompack
