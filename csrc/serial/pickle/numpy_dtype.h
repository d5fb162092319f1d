// NumPy's element types in pickles (FORMAT.md#numpy).
#pragma once

#include <span>
#include <string_view>

#include "serial/pickle/state.h"

namespace atompack::pickle {

// The call of numpy.dtype, and BUILD on its result.
Cell numpy_dtype(State& state, std::span<const Cell> arguments);
void build_numpy_dtype(State& state, const Cell& dtype, const Cell& build_state);

// Returns the number of the type in `cell` and seals it: callers rely on its size.
uint32_t type_of(State& state, const Cell& cell, std::string_view what);

// Parses an argument of numpy.ndarray: with the byte order in front, and bool as "?".
ElementType parse_type_text(std::string_view text);

}  // namespace atompack::pickle
