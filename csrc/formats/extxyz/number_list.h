// Numbers in nested lists, in values of comment lines: FORMAT.md#values.
#pragma once

#include <string_view>

#include "formats/extxyz/array.h"

namespace atompack::extxyz {

// json: brackets, commas, true and false; numbers as elsewhere in this format, including NaN and Infinity.
// loose: also braces, spaces between items, T and F.
enum class ListStyle : uint8_t { json, loose };

// Reads a number or nested lists of numbers. False for everything else, including lists of different lengths at one
// depth. The array's kind is the widest kind of its numbers.
bool parse_number_list(std::string_view text, ListStyle style, Array& out);

}  // namespace atompack::extxyz
