// Classification of a comment line's value: numbers, flags, or a string; FORMAT.md#values.
#pragma once

#include <string_view>

#include "formats/extxyz/array.h"
#include "formats/extxyz/comment_line.h"

namespace atompack::extxyz {

// `out` keeps its memory from call to call.
void infer_value(const Entry& entry, Array& out);

// Appends `text` such that it is read back as this string and nothing else.
void append_text_value(std::string_view key, std::string_view text, std::string& line);

constexpr std::string_view kJsonMark = "_JSON ";

// The string after the prefix, if any.
std::string_view without_mark(std::string_view text);

}  // namespace atompack::extxyz
