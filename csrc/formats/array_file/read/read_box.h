// Reading of the elements of a box from an array's chunks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/utf8.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/layer/strings.h"

namespace atompack::array_file {

// Fills `out` with the elements of `box` in row-major order, as stored: little-endian numbers, timestamps as int64
// nanoseconds. Decodes only blocks that hold some of them. Throws FieldError if the box is out of range or `out` has
// another length, CorruptFileError, and UnsupportedFormatError for types without a known encoding.
void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last);

// The same for strings and binary values. Invalid UTF-8 in strings is replaced by U+FFFD.
void read_strings(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                  DecodedBlock& last);

// Throws FieldError if the elements of `box`, which must be in range, take more memory than their blocks justify: see
// max_unstored_bytes(). Call it before allocating the memory.
void check_unstored(const Layers& layers, const Array& array, const Box& box, std::optional<uint64_t> chosen);
// Decoded size of the blocks that hold elements of `box`.
uint64_t decoded_bytes_for(const Layers& layers, const Array& array, const Box& box);

// Throws FieldError if a box is outside of an array of this shape.
void check_box(const std::vector<uint64_t>& shape, const Box& box);
// For arrays with cells without a chunk: throws CorruptFileError unless these hold the fill value.
void check_cells_are_known(const Layers& layers, std::optional<uint32_t> foreign_layer);
// Throws CorruptFileError.
void check_chunk_bytes(uint64_t expected, uint64_t got);

// Fills `out` with copies of the item.
void repeat(Bytes item, std::span<std::byte> out);

// Copies the elements that a chunk, which holds those of `from`, shares with the box of `out`.
void copy_numbers(Bytes chunk, const Box& from, uint64_t item_bytes, const Box& box, std::span<std::byte> out);
void copy_strings(Bytes chunk, const Box& from, Type type, const Box& box, std::span<std::string> out);
// Calls use(element of the box, string) for each of them.
template <typename Use>
void for_each_common_string(Bytes chunk, const Box& from, Type type, const Box& box, const Use& use) {
  const Strings strings(chunk, from.n_elements());
  for_each_common_run(from, box, [&](uint64_t source, uint64_t target, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const Bytes text = strings.at(source + i);
      const bool is_readable = type != Type::string || is_utf8(text);
      is_readable ? use(target + i, text) : use(target + i, as_bytes(well_formed(text)));
    }
  });
}

}  // namespace atompack::array_file
