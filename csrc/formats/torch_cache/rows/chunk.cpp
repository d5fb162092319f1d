#include "formats/torch_cache/rows/chunk.h"

#include "base/checked_math.h"
#include "codec/inflate.h"

namespace atompack::torch_cache {
namespace {

bool is_applied(std::optional<unsigned> filter, uint32_t mask) { return filter && (mask >> *filter & 1) == 0; }

// Checks the size claimed by the layout against the stored bytes before memory is allocated.
void check_size(uint64_t claimed, uint64_t stored, bool deflated) {
  const uint64_t limit = deflated ? checked_mul(stored, codec::kMaxInflateRatio, "chunk") : stored;
  if (claimed > limit || (!deflated && claimed != stored)) {
    throw CorruptFileError(cat("chunk: ", stored, " stored bytes hold at most ", limit, ", expected ", claimed));
  }
}

// Shuffled data: byte k of all elements is contiguous.
void pick_shuffled(const ChunkLayout& layout, Bytes data, RowRange rows, std::span<const ByteRange> ranges,
                   std::byte* to) {
  const size_t stride = total_length(ranges);
  size_t column = 0;
  for (const ByteRange& range : ranges) {
    for (size_t k = 0; k < range.length; ++k, ++column) {
      const std::byte* const from = data.data() + (range.offset + k) * layout.n_rows + rows.first;
      for (uint64_t row = 0; row < rows.count; ++row) to[row * stride + column] = from[row];
    }
  }
}

void pick_plain(const ChunkLayout& layout, Bytes data, RowRange rows, std::span<const ByteRange> ranges,
                std::byte* to) {
  const std::byte* from = data.data() + rows.first * layout.element_bytes;
  for (uint64_t row = 0; row < rows.count; ++row, from += layout.element_bytes) {
    for (const ByteRange& range : ranges) to = store(to, {from + range.offset, range.length});
  }
}

}  // namespace

size_t total_length(std::span<const ByteRange> ranges) {
  size_t total = 0;
  for (const ByteRange& range : ranges) total += range.length;
  return total;
}

void unpack_chunk(const ChunkLayout& layout, const StoredChunk& chunk, RowRange rows, std::span<const ByteRange> ranges,
                  std::span<std::byte> out, std::vector<std::byte>& kept) {
  const bool deflated = is_applied(layout.deflate, chunk.filter_mask);
  const uint64_t bytes = checked_mul(layout.n_rows, layout.element_bytes, "chunk");
  check_size(bytes, chunk.bytes.size(), deflated);
  if (rows.first > layout.n_rows || rows.count > layout.n_rows - rows.first ||
      out.size() != rows.count * total_length(ranges)) {
    throw InternalError("unpack_chunk: rows that the chunk does not have");
  }
  Bytes data = chunk.bytes;
  if (deflated) {
    kept.resize(bytes);
    codec::inflate(chunk.bytes, kept);
    data = kept;
  }
  if (is_applied(layout.shuffle, chunk.filter_mask)) {
    pick_shuffled(layout, data, rows, ranges, out.data());
  } else {
    pick_plain(layout, data, rows, ranges, out.data());
  }
}

}  // namespace atompack::torch_cache
