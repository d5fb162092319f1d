// Reads the elements of a box of an array out of its chunks.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/utf8.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/layer/texts.h"

namespace atompack::array_file {

// Fills `out` with the elements of `box` in row-major order, as they lie in the file: little-endian numbers, timestamps
// as int64 nanoseconds. Only blocks that hold some of them are decoded. Throws FieldError where the box does not lie in
// the array or `out` is not as long as it, CorruptFileError, and UnsupportedFormatError for types without a known
// encoding.
void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last);

// The same for strings and binary values. What is not UTF-8 in a string is replaced by U+FFFD.
void read_texts(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                DecodedBlock& last);

// Throws FieldError where the elements of `box`, which lies in the array, take more memory than the blocks that they
// are in justify: see max_unstored_bytes(). To be called before the memory is taken.
void check_unstored(const Layers& layers, const Array& array, const Box& box, std::optional<uint64_t> chosen);
// Decoded bytes of the blocks that hold elements of `box`.
uint64_t decoded_bytes_for(const Layers& layers, const Array& array, const Box& box);

// Throws FieldError where a box does not lie in an array of this shape.
void check_box(const std::vector<uint64_t>& shape, const Box& box);
// For arrays with cells that have no chunk: throws CorruptFileError unless these hold the fill value.
void check_cells_are_known(const Layers& layers, std::optional<uint32_t> foreign_layer);
// Throws CorruptFileError.
void check_chunk_bytes(uint64_t expected, uint64_t got);

// An item again and again.
void repeat(Bytes item, std::span<std::byte> out);

// The elements that a chunk, with those of `from`, has in common with the box that `out` is for.
void copy_numbers(Bytes chunk, const Box& from, uint64_t item_bytes, const Box& box, std::span<std::byte> out);
void copy_texts(Bytes chunk, const Box& from, Type type, const Box& box, std::span<std::string> out);
// Calls use(element of the box, text) for each of them.
template <typename Use>
void for_each_common_text(Bytes chunk, const Box& from, Type type, const Box& box, const Use& use) {
  const Texts texts(chunk, from.n_elements());
  for_each_common_run(from, box, [&](uint64_t source, uint64_t target, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      const Bytes text = texts.at(source + i);
      const bool is_readable = type != Type::string || is_utf8(text);
      is_readable ? use(target + i, text) : use(target + i, as_bytes(well_formed(text)));
    }
  });
}

}  // namespace atompack::array_file
