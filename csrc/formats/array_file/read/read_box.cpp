#include "formats/array_file/read/read_box.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/checked_math.h"
#include "formats/array_file/layer/limits.h"
#include "formats/array_file/read/chunks_in_box.h"

namespace atompack::array_file {
namespace {

// A chunk, and the elements that it holds.
struct ChunkRef {
  const StoredChunk* stored = nullptr;
  Box box;
};

// The chunks that a box needs, grouped by block.
struct BoxChunks {
  std::vector<ChunkRef> chunk_refs;
  bool complete = true;  // each cell has a chunk
};

void check_length(uint64_t expected, uint64_t got) {
  if (expected != got) throw FieldError(cat("elements read: expected ", expected, ", got room for ", got));
}

BoxChunks find_chunks(const Array& array, const Box& box) {
  BoxChunks found;
  if (array.chunks.empty()) return {{}, false};
  const Grid grid = array.grid();
  const std::optional<Box> cells = grid.cells_meeting(box);
  if (!cells) return {{}, false};
  for_each_chunk_in(grid, *cells, std::span(array.chunks), [&](const StoredChunk& stored) {
    found.chunk_refs.push_back({&stored, grid.box_of(grid.cell_at(stored.cell))});
  });
  found.complete = found.chunk_refs.size() == cells->n_elements();
  std::ranges::sort(found.chunk_refs, {}, [](const ChunkRef& chunk_ref) {
    return std::tuple(chunk_ref.stored->layer, chunk_ref.stored->chunk.block, chunk_ref.stored->chunk.offset);
  });
  return found;
}

// Adds the name of the array to errors.
template <typename Action>
void for_array(const Array& array, const Action& action) {
  try {
    action();
  } catch (DataError& error) {
    error.at_field(array.name);
    throw;
  }
}

// All ranges at once, where each would be waited for after the one before.
void announce_chunks(const Layers& layers, const std::vector<ChunkRef>& chunk_refs, const DecodedBlock& last) {
  for (size_t i = 0; i < chunk_refs.size();) {
    const uint32_t number = chunk_refs[i].stored->layer;
    const Layer& layer = layers.layer(number);
    const bool is_of_use = layer.file().window() > 1;
    std::vector<io::ByteRange> ranges;
    for (; i < chunk_refs.size() && chunk_refs[i].stored->layer == number; ++i) {
      const ChunkRecord& chunk = chunk_refs[i].stored->chunk;
      if (!is_of_use || layer.is_held(chunk.block, last)) continue;
      const io::ByteRange range = layer.range_of(chunk);
      if (ranges.empty() || range.offset != ranges.back().offset) ranges.push_back(range);
    }
    if (ranges.size() > 1) layer.file().announce(ranges);
  }
}

// Reads the chunks of a checked box. Calls use(chunk, its bytes).
template <typename Use>
void read_chunks(const Layers& layers, const BoxChunks& chunk_refs, DecodedBlock& last, const Use& use) {
  announce_chunks(layers, chunk_refs.chunk_refs, last);
  for (const ChunkRef& chunk_ref : chunk_refs.chunk_refs) {
    const Layer& layer = layers.layer(chunk_ref.stored->layer);
    const Bytes bytes = layer.read(chunk_ref.stored->chunk, last);
    try {
      use(chunk_ref, bytes);
    } catch (DataError& error) {
      error.in_file(layer.path());
      throw;
    }
  }
}

}  // namespace

uint64_t decoded_bytes_for(const Layers& layers, const Array& array, const Box& box) {
  uint64_t bytes = 0;
  const StoredChunk* last = nullptr;
  for (const ChunkRef& chunk_ref : find_chunks(array, box).chunk_refs) {  // grouped by block
    const StoredChunk& chunk = *chunk_ref.stored;
    const bool is_counted = last != nullptr && last->layer == chunk.layer && last->chunk.block == chunk.chunk.block;
    if (!is_counted) bytes += layers.layer(chunk.layer).decoded_bytes(chunk.chunk.block);
    last = &chunk;
  }
  return bytes;
}

void check_unstored(const Layers& layers, const Array& array, const Box& box, std::optional<uint64_t> chosen) {
  for_array(array, [&] {
    check_box(array.shape, box);
    const uint64_t limit = max_unstored_bytes(layers.file_bytes(), chosen);
    const uint64_t wanted = memory_of(box.n_elements(), array.type);
    if (wanted <= limit) return;
    const uint64_t stored = decoded_bytes_for(layers, array, box);
    if (wanted > stored && wanted - stored > limit) refuse_unstored(wanted - stored, limit);
  });
}

void check_box(const std::vector<uint64_t>& shape, const Box& box) {
  if (box.start.size() != shape.size() || box.count.size() != shape.size()) {
    throw FieldError(
        cat("axes of the slice: expected ", shape.size(), ", got ", box.start.size(), " and ", box.count.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.start[i] <= shape[i] && box.count[i] <= shape[i] - box.start[i]) continue;
    throw FieldError(cat("slice of axis ", i, ": expected at most ", shape[i], " elements, got start ", box.start[i],
                         " and count ", box.count[i]));
  }
}

void check_cells_are_known(const Layers& layers, std::optional<uint32_t> foreign_layer) {
  if (!foreign_layer) return;
  throw CorruptFileError(
      "cells without a chunk: expected the fill value, got older chunks of another type, shape or chunk shape")
      .in_file(layers.layer(*foreign_layer).path());
}

void check_chunk_bytes(uint64_t expected, uint64_t got) {
  if (got != expected) throw CorruptFileError(cat("chunk bytes: expected ", expected, ", got ", got));
}

void repeat(Bytes item, std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += item.size()) store(out.data() + at, item);
}

void copy_numbers(Bytes chunk, const Box& from, uint64_t item_bytes, const Box& box, std::span<std::byte> out) {
  check_chunk_bytes(from.n_elements() * item_bytes, chunk.size());
  for_each_common_run(from, box, [&](uint64_t source, uint64_t target, uint64_t n) {
    store(out.data() + target * item_bytes, chunk.subspan(source * item_bytes, n * item_bytes));
  });
}

void copy_strings(Bytes chunk, const Box& from, Type type, const Box& box, std::span<std::string> out) {
  for_each_common_string(chunk, from, type, box, [&](uint64_t element, Bytes text) { out[element] = as_text(text); });
}

void read_numbers(const Layers& layers, const Array& array, const Box& box, std::span<std::byte> out,
                  DecodedBlock& last) {
  for_array(array, [&] {
    const uint64_t item = item_bytes(array.type);
    if (item == 0 || array.type == Type::boolean) {
      throw UnsupportedFormatError(cat("type: expected numbers or timestamps, got ", name_of(array.type)));
    }
    check_box(array.shape, box);
    // no overflow, since the size of the whole array does not overflow
    check_length(box.n_elements() * item, out.size());
    if (out.empty()) return;
    const BoxChunks chunk_refs = find_chunks(array, box);
    if (!chunk_refs.complete) check_cells_are_known(layers, array.foreign_layer);
    const std::array<std::byte, 8> fill = fill_item(array.type, array.fill);
    if (!chunk_refs.complete) repeat(Bytes(fill).first(item), out);
    read_chunks(layers, chunk_refs, last,
                [&](const ChunkRef& chunk_ref, Bytes bytes) { copy_numbers(bytes, chunk_ref.box, item, box, out); });
  });
}

void read_strings(const Layers& layers, const Array& array, const Box& box, std::span<std::string> out,
                  DecodedBlock& last) {
  for_array(array, [&] {
    if (array.type != Type::string && array.type != Type::binary) {
      throw UnsupportedFormatError(cat("type: expected strings or binary, got ", name_of(array.type)));
    }
    check_box(array.shape, box);
    check_length(box.n_elements(), out.size());
    if (out.empty()) return;
    const BoxChunks chunk_refs = find_chunks(array, box);
    if (!chunk_refs.complete) check_cells_are_known(layers, array.foreign_layer);
    for (std::string& text : out) text.clear();  // fill values do not apply to strings
    read_chunks(layers, chunk_refs, last, [&](const ChunkRef& chunk_ref, Bytes bytes) {
      copy_strings(bytes, chunk_ref.box, array.type, box, out);
    });
  });
}

}  // namespace atompack::array_file
