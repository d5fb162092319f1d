// NumPy's element types as pickles hold them (FORMAT.md#numpy).
#pragma once

#include <span>
#include <string_view>

#include "serial/pickle/state.h"

namespace atompack::pickle {

// The call of numpy.dtype, and BUILD of what it made.
Cell numpy_dtype(State& state, std::span<const Cell> arguments);
void build_numpy_dtype(State& state, const Cell& dtype, const Cell& build_state);

// The number of the type that `cell` is; from here on it cannot change, since someone relies on its size.
uint32_t type_of(State& state, const Cell& cell, std::string_view what);

// As given to numpy.ndarray: with an order in front, and bool as a mere "?".
ElementType parse_type_text(std::string_view text);

}  // namespace atompack::pickle
