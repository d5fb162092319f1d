// One stored chunk of a dataset: its filters undone, and the wanted bytes of each row picked out of it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace atompack::torch_cache {

// Some bytes of every element.
struct ByteRange {
  size_t offset = 0;
  size_t length = 0;
};

size_t total_length(std::span<const ByteRange> ranges);

// How the chunks of one dataset are made. A filter is given by its place in the list of filters, in which shuffle
// stands before deflate.
struct ChunkLayout {
  uint64_t n_rows = 0;  // in every chunk, the last one too
  size_t element_bytes = 0;
  std::optional<unsigned> shuffle, deflate;
};

// The rows of one chunk that are wanted.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Appends to `out` the ranges of each row, one row after the other. Bit k of `filter_mask` says that filter k was left
// out. `kept` is memory that later calls use again. Throws CorruptFileError.
struct StoredChunk {
  Bytes bytes;
  uint32_t filter_mask = 0;
};
void unpack_chunk(const ChunkLayout& layout, const StoredChunk& chunk, RowRange rows, std::span<const ByteRange> ranges,
                  std::span<std::byte> out, std::vector<std::byte>& kept);

}  // namespace atompack::torch_cache
