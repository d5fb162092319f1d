// Element types of the tensors this library makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atompack {

enum class DType : uint8_t { boolean, uint8, int32, int64, float16, bfloat16, float32, float64 };

constexpr size_t item_bytes(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8:
      return 1;
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::int32:
    case DType::float32:
      return 4;
    case DType::int64:
    case DType::float64:
      return 8;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) { return dtype >= DType::float16; }

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
  }
  return "?";
}

}  // namespace atompack
