// Reading elements of an array out of its chunks.
#pragma once

#include <span>
#include <string>

#include "array_format/layers.h"

namespace atompack::array_format {

// Fills `out` with the elements of `box` in row-major order, as they lie in the file: little-endian numbers, timestamps
// as int64 nanoseconds. Only blocks that hold some of them are decoded. Throws FieldError where the box does not lie in
// the array or `out` is not as long as it, CorruptFileError, and UnsupportedFormatError for types without a known
// encoding.
void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last);

// The same for strings and binary values. What is not UTF-8 in a string is replaced by U+FFFD.
void read_texts(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                DecodedBlock& last);

}  // namespace atompack::array_format
