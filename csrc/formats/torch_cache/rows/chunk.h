// One stored chunk of a dataset: reversal of its filters, and extraction of the needed bytes of each row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace atompack::torch_cache {

// Byte range within every element.
struct ByteRange {
  size_t offset = 0;
  size_t length = 0;
};

size_t total_length(std::span<const ByteRange> ranges);

// Chunk layout of one dataset. A filter is given by its position in the list of filters, in which shuffle comes before
// deflate.
struct ChunkLayout {
  uint64_t n_rows = 0;  // in every chunk, including the last one
  size_t element_bytes = 0;
  std::optional<unsigned> shuffle, deflate;
};

// Range of rows within one chunk.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Appends the byte ranges of each row to `out`, one row after the other. Bit k of `filter_mask` means that filter k was
// skipped. `kept` is memory that later calls reuse. Throws CorruptFileError.
struct StoredChunk {
  Bytes bytes;
  uint32_t filter_mask = 0;
};
void unpack_chunk(const ChunkLayout& layout, const StoredChunk& chunk, RowRange rows, std::span<const ByteRange> ranges,
                  std::span<std::byte> out, std::vector<std::byte>& kept);

}  // namespace atompack::torch_cache
