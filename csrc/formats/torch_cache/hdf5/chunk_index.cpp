#include "formats/torch_cache/hdf5/chunk_index.h"

#include "base/checked_math.h"
#include "formats/torch_cache/hdf5/btree.h"

namespace atompack::torch_cache {
namespace {

std::string_view name_of_layout(int kind) {
  constexpr std::string_view kNames[] = {"compact", "contiguous", "chunked", "virtual"};
  return kind < 4 ? kNames[kind] : "unknown";
}

}  // namespace

ChunkedLayout read_layout(MetadataCursor cursor) {
  constexpr int kVersion = 3, kChunked = 2;
  if (const int version = cursor.read<uint8_t>(); version != kVersion) {
    throw UnsupportedFormatError(cat("layout: expected version ", kVersion, ", which HDF5 writes by default, got ",
                                     version, "; rewrite the file with the bounds 'earliest' to 'v108'"),
                                 cursor.offset() - 1);
  }
  const int kind = cursor.read<uint8_t>();
  if (kind != kChunked) {
    throw UnsupportedFormatError(cat("layout: expected storage in chunks, got ", name_of_layout(kind)));
  }
  const int rank = cursor.read<uint8_t>();
  if (rank != 2) cursor.fail("chunks of one dimension", rank - 1);
  ChunkedLayout layout;
  layout.index = cursor.read<uint64_t>();
  const uint64_t at = cursor.offset();
  layout.chunk_rows = cursor.read<uint32_t>();
  layout.element_bytes = cursor.read<uint32_t>();  // stored as a second dimension
  if (layout.chunk_rows == 0 || layout.element_bytes == 0) {
    throw CorruptFileError("layout: expected chunks of at least one byte, got none", at);
  }
  return layout;
}

std::vector<ChunkPlace> read_chunk_index(const Hdf5File& file, const ChunkedLayout& layout, uint64_t n_rows) {
  const uint64_t count = n_rows / layout.chunk_rows + (n_rows % layout.chunk_rows != 0 ? 1 : 0);
  // Each chunk has an address in the index.
  if (count > file.bytes().size() / kAddressBytes) {
    throw_corrupt("layout: expected chunks that ", file.bytes().size(), " bytes can hold, got ", count);
  }
  std::vector<ChunkPlace> chunks(count);
  // A key: size, filters that were skipped, and the position in each dimension.
  constexpr uint64_t kKeyBytes = 4 + 4 + 8 + 8;
  constexpr int kChunks = 1;
  const auto visit = [&](Bytes key, uint64_t address) {
    const auto row = load_le<uint64_t>(key.data() + 8);
    if (row % layout.chunk_rows != 0) {
      throw_corrupt("chunk: expected a multiple of ", layout.chunk_rows, " as its first row, got ", row);
    }
    const uint64_t number = row / layout.chunk_rows;
    if (number >= count) return;  // left over from a larger number of rows
    chunks[number] = {address, load_le<uint32_t>(key.data()), load_le<uint32_t>(key.data() + 4)};
  };
  if (count > 0) OldBTree(file, kChunks, kKeyBytes, visit).walk(layout.index);
  return chunks;
}

}  // namespace atompack::torch_cache
