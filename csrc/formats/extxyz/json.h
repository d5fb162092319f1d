// The part of JSON that values need: one text, one number, or lists of numbers in lists.
#pragma once

#include <string>
#include <string_view>

#include "formats/extxyz/array.h"

namespace atompack::extxyz {

// False for everything else, among it lists of texts and lists that are not of one shape. The kind of a list is the
// widest of its numbers'.
bool parse_json(std::string_view json, Array& out);

// Lists in lists as the comment line has them outside JSON: with [] or {}, separated by commas or spaces, T and F.
bool parse_nested(std::string_view list, Array& out);

std::string json_string(std::string_view text);

}  // namespace atompack::extxyz
