// JSON after the prefix `_JSON` of a value: FORMAT.md#values.
#pragma once

#include <string>
#include <string_view>

#include "formats/extxyz/array.h"

namespace atompack::extxyz {

// Parses a string, a number, or nested lists of numbers. False for everything else.
bool parse_json(std::string_view json, Array& out);

std::string json_string(std::string_view text);

}  // namespace atompack::extxyz
