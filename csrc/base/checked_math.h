// Overflow-checked arithmetic on sizes read from files: overflow is an error, never a wrap.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace atompack {

inline uint64_t checked_mul(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_corrupt(what, ": ", a, " x ", b, " overflows 64 bits");
  return product;
}

inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_corrupt(what, ": ", a, " + ", b, " overflows 64 bits");
  return sum;
}

}  // namespace atompack
