// Effects of NumPy's functions in pickles (csrc/serial/pickle/FORMAT.md#numpy).
#pragma once

#include <span>

#include "serial/pickle/state.h"

namespace atompack::pickle {

// Arguments are those of the call of that name; the cells must not lie in the tree's own memory past the call.
Cell numpy_reconstruct(State& state, std::span<const Cell> arguments);
Cell numpy_from_buffer(State& state, std::span<const Cell> arguments);
Cell numpy_array(State& state, std::span<const Cell> arguments);
Cell numpy_scalar(State& state, std::span<const Cell> arguments);

void build_numpy_array(State& state, const Cell& array, const Cell& build_state);

// Appends the numbers of a tuple to the extents; returns how many.
uint8_t add_extents(State& state, const Cell& tuple, std::string_view what);

// How many elements there are; a product that overflows is corrupt, also where another extent is 0.
uint64_t count_elements(std::span<const int64_t> shape);

Order order_of(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace atompack::pickle
