// A value of a molecule or the rows of its atoms as parsed from text, before interpretation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"

namespace atompack::parsed {

// Ordered: each kind can represent the values of those before it (text as written in the file), but null, which is
// absent among others.
enum class Kind : uint8_t { null, flag, integer, real, text };

using atompack::name_of;
constexpr Names<5> names_of(Kind) { return {"kind", {"null", "flag", "integer", "real", "text"}}; }

constexpr Kind wider(Kind a, Kind b) { return std::max(a, b); }

constexpr size_t product(std::span<const int64_t> shape) {
  size_t n = 1;
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

// In C order. Only the vector for its kind is in use.
struct Array {
  Kind kind = Kind::text;
  bool is_narrow = false;      // integers or reals that 32 bits hold exactly, by their type in the file
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<uint8_t> flags;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;

  bool is_scalar() const { return shape.empty(); }
  // Keeps the memory, so that one array can be reused for many values.
  void reset(Kind new_kind);
  size_t size() const;
  // Numbers only: `to` is no narrower, and not text.
  void widen(Kind to);
  // Makes text of a number, which is a scalar.
  void to_text();
};

}  // namespace atompack::parsed
