// A value of a comment line or the rows of a column, before anyone says what they mean.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace atompack::extxyz {

// In this order: each kind can hold what those before it hold (text as it stands in the file).
enum class Kind : uint8_t { flag, integer, real, text };

constexpr Kind wider(Kind a, Kind b) { return std::max(a, b); }

constexpr size_t product(std::span<const int64_t> shape) {
  size_t n = 1;
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

// In C order. Of the vectors only that of its kind is in use.
struct Array {
  Kind kind = Kind::text;
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<uint8_t> flags;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;

  bool is_scalar() const { return shape.empty(); }
  // Keeps the memory, so that one array serves for many values.
  void reset(Kind new_kind);
  size_t size() const;
  // Numbers only: `to` is no narrower, and not text.
  void widen(Kind to);
};

std::string_view name_of(Kind kind);

}  // namespace atompack::extxyz
