// Checked access to the arguments of calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "serial/pickle/state.h"

namespace atompack::pickle {

inline bool is_integer(const Cell& cell, int64_t value) {
  return cell.kind() == Kind::integer && cell.integer == value;
}
inline bool is_none(const Cell& cell) { return cell.kind() == Kind::none; }

inline std::string_view text_of(const Cell& cell, std::string_view what) {
  expect_kind(cell, Kind::text, what);
  return cell.text();
}

// NumPy 1.16 and older wrote 0 and 1.
inline bool flag_of(const Cell& cell, std::string_view what) {
  const bool is_number = is_integer(cell, 0) || is_integer(cell, 1);
  if (!is_number) expect_kind(cell, Kind::boolean, what);
  return cell.node != 0;
}

inline uint32_t size_of(const Cell& cell, std::string_view what) {
  expect_kind(cell, Kind::integer, what);
  if (cell.integer < 0 || cell.integer > INT32_MAX) corrupt(what, ": expected a size, got ", cell.integer);
  return static_cast<uint32_t>(cell.integer);
}

}  // namespace atompack::pickle
