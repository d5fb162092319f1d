// NumPy's functions in pickles (csrc/serial/pickle/FORMAT.md#numpy).
#pragma once

#include <span>

#include "serial/pickle/state.h"

namespace atompack::pickle {

// `arguments` are those of the pickled call; the cells must not be part of the tree's own memory after the call.
Cell numpy_reconstruct(State& state, std::span<const Cell> arguments);
Cell numpy_from_buffer(State& state, std::span<const Cell> arguments);
Cell numpy_array(State& state, std::span<const Cell> arguments);
Cell numpy_scalar(State& state, std::span<const Cell> arguments);

void build_numpy_array(State& state, const Cell& array, const Cell& build_state);

// Appends the numbers of a tuple to the extents; returns their count.
uint8_t add_extents(State& state, const Cell& tuple, std::string_view what);

// The number of elements; a product that overflows is corrupt, even if another extent is 0.
uint64_t count_elements(std::span<const int64_t> shape);

Order order_of(std::span<const int64_t> shape, std::span<const int64_t> strides);

}  // namespace atompack::pickle
