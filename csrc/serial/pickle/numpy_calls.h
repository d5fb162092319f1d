// NumPy's functions in pickles (csrc/serial/pickle/FORMAT.md#numpy).
#pragma once

#include <span>
#include <string_view>

#include "serial/pickle/state.h"

namespace atompack::pickle {

// NumPy's element types in pickles (FORMAT.md#numpy).

// The call of numpy.dtype, and BUILD on its result.
Cell numpy_dtype(State& state, std::span<const Cell> arguments);
void build_numpy_dtype(State& state, const Cell& dtype, const Cell& build_state);

// Returns the number of the type in `cell` and seals it: callers rely on its size.
uint32_t type_of(State& state, const Cell& cell, std::string_view what);

// Parses an argument of numpy.ndarray: with the byte order in front, and bool as "?".
ElementType parse_type_text(std::string_view text);

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
// View of an array in memory, which the caller keeps, like the shape and the strides. These count elements and are not
// negative.
Array view_of(const TypeTable& table, const ElementType& type, std::span<const int64_t> shape,
              std::span<const int64_t> strides, const void* data);

}  // namespace atompack::pickle
