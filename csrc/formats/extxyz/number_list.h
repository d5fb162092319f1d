// Numbers in nested lists, as values of comment lines: FORMAT.md#values.
#pragma once

#include <string_view>

#include "formats/extxyz/array.h"

namespace atompack::extxyz {

// json: brackets, commas, true and false; numbers as everywhere in this format, so NaN and Infinity too.
// loose: also braces, spaces between items, T and F.
enum class ListStyle : uint8_t { json, loose };

// Reads a number or nested lists of numbers. False for everything else, including lists of different lengths at one
// depth. The array's kind is the widest of its numbers' kinds.
bool parse_number_list(std::string_view text, ListStyle style, Array& out);

}  // namespace atompack::extxyz
