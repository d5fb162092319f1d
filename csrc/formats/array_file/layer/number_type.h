// Types of numbers in C++.
#pragma once

#include <cstdint>
#include <variant>

#include "formats/array_file/layer/footer.h"

namespace atompack::array_file {

// Calls `use` with a zero of the C++ type of a type of numbers (int64 for timestamps), or with std::monostate.
template <typename Use>
auto with_number_of(Type type, const Use& use) {
  switch (type) {
    case Type::int8:
      return use(int8_t{});
    case Type::int16:
      return use(int16_t{});
    case Type::int32:
      return use(int32_t{});
    case Type::int64:
    case Type::timestamp:
      return use(int64_t{});
    case Type::uint8:
      return use(uint8_t{});
    case Type::uint16:
      return use(uint16_t{});
    case Type::uint32:
      return use(uint32_t{});
    case Type::uint64:
      return use(uint64_t{});
    case Type::float32:
      return use(float{});
    case Type::float64:
      return use(double{});
    default:
      return use(std::monostate{});
  }
}

}  // namespace atompack::array_file
