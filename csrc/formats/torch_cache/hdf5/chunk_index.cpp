#include "formats/torch_cache/hdf5/chunk_index.h"

#include "base/checked_math.h"
#include "formats/torch_cache/hdf5/btree.h"
#include "formats/torch_cache/hdf5/chunk_arrays.h"

namespace atompack::torch_cache {
namespace {

using Index = ChunkedLayout::Index;

std::string_view name_of_layout(int kind) {
  constexpr std::string_view kNames[] = {"compact", "contiguous", "chunked", "virtual"};
  return kind < 4 ? kNames[kind] : "unknown";
}

// The second dimension is the size of an element.
void set_shape(ChunkedLayout& layout, uint64_t n_rows, uint64_t element_bytes, uint64_t at) {
  if (n_rows == 0 || element_bytes == 0) {
    throw CorruptFileError("layout: expected chunks of at least one byte, got none", at);
  }
  layout.shape = {n_rows, checked_mul(n_rows, element_bytes, "layout")};
  layout.element_bytes = element_bytes;
}

void read_new(MetadataCursor& cursor, ChunkedLayout& layout) {
  constexpr int kSingleFiltered = 2;
  const int flags = cursor.read<uint8_t>();
  const int rank = cursor.read<uint8_t>();
  if (rank != 2) cursor.fail("chunks of one dimension", rank - 1);
  const int width = cursor.read<uint8_t>();
  if (width < 1 || width > 8) cursor.fail("a width up to 8", width);
  const uint64_t at = cursor.offset();
  const uint64_t n_rows = cursor.number(static_cast<size_t>(width));
  set_shape(layout, n_rows, cursor.number(static_cast<size_t>(width)), at);
  const int kind = cursor.read<uint8_t>();
  if (kind < 1 || kind > 4) {
    throw UnsupportedFormatError(cat("layout: expected a chunk index of one dimension, got kind ", kind),
                                 cursor.offset() - 1);
  }
  layout.kind = static_cast<Index>(kind);
  if (layout.kind == Index::single && (flags & kSingleFiltered) != 0) {
    layout.is_single_filtered = true;
    layout.single.bytes = cursor.read<uint64_t>();
    layout.single.filter_mask = cursor.read<uint32_t>();
  }
  if (layout.kind == Index::fixed_array) cursor.take(1);
  if (layout.kind == Index::extensible_array) cursor.take(5);
  layout.index = cursor.read<uint64_t>();
}

class IndexReader {
 public:
  IndexReader(const Hdf5File& file, const ChunkedLayout& layout, bool has_filters, std::vector<ChunkPlace>& chunks)
      : file_(file), layout_(layout), has_filters_(has_filters), chunks_(chunks) {}

  void read() {
    if (layout_.index == Hdf5File::kNowhere) return;
    switch (layout_.kind) {
      case Index::old_btree:
        return read_tree();
      case Index::single:
        chunks_[0] = {layout_.index, layout_.is_single_filtered ? layout_.single.bytes : layout_.shape.bytes,
                      layout_.single.filter_mask};
        return;
      case Index::implicit:
        for (size_t i = 0; i < chunks_.size(); ++i) {
          const uint64_t before = checked_mul(i, layout_.shape.bytes, "layout");
          chunks_[i] = {checked_add(layout_.index, before, "layout"), layout_.shape.bytes, 0};
        }
        return;
      case Index::fixed_array:
        return read_fixed_array(file_, layout_.index, {has_filters_, layout_.shape.bytes}, chunks_);
      case Index::extensible_array:
        return read_extensible_array(file_, layout_.index, {has_filters_, layout_.shape.bytes}, chunks_);
    }
  }

 private:
  // A key: size, filters that were skipped, and the position in each dimension.
  void read_tree() {
    constexpr uint64_t kKeyBytes = 4 + 4 + 8 + 8;
    constexpr int kChunks = 1;
    const auto visit = [this](Bytes key, uint64_t address) {
      const auto row = load_le<uint64_t>(key.data() + 8);
      if (row % layout_.shape.n_rows != 0) {
        throw CorruptFileError(
            cat("chunk: expected a multiple of ", layout_.shape.n_rows, " as its first row, got ", row));
      }
      const uint64_t number = row / layout_.shape.n_rows;
      if (number >= chunks_.size()) return;  // left from when there were more rows
      chunks_[number] = {address, load_le<uint32_t>(key.data()), load_le<uint32_t>(key.data() + 4)};
    };
    OldBTree(file_, kChunks, kKeyBytes, visit).walk(layout_.index);
  }

  const Hdf5File& file_;
  const ChunkedLayout& layout_;
  bool has_filters_;
  std::vector<ChunkPlace>& chunks_;
};

}  // namespace

ChunkedLayout read_layout(MetadataCursor cursor) {
  constexpr int kChunked = 2;
  const int version = cursor.read<uint8_t>();
  if (version != 3 && version != 4) {
    throw UnsupportedFormatError(cat("layout: expected version 3 or 4, got ", version), cursor.offset() - 1);
  }
  const int kind = cursor.read<uint8_t>();
  if (kind != kChunked) {
    throw UnsupportedFormatError(cat("layout: expected storage in chunks, got ", name_of_layout(kind)));
  }
  ChunkedLayout layout;
  if (version == 4) {
    read_new(cursor, layout);
    return layout;
  }
  const int rank = cursor.read<uint8_t>();
  if (rank != 2) cursor.fail("chunks of one dimension", rank - 1);
  layout.index = cursor.read<uint64_t>();
  const uint64_t at = cursor.offset();
  const uint64_t n_rows = cursor.read<uint32_t>();
  set_shape(layout, n_rows, cursor.read<uint32_t>(), at);
  return layout;
}

std::vector<ChunkPlace> read_chunk_index(const Hdf5File& file, const ChunkedLayout& layout, uint64_t n_rows,
                                         bool has_filters) {
  const uint64_t count = n_rows / layout.shape.n_rows + (n_rows % layout.shape.n_rows != 0 ? 1 : 0);
  // Each chunk has an address in the index, or at least a reference of its own.
  if (count > file.bytes().size() / kAddressBytes) {
    throw CorruptFileError(cat("layout: expected chunks that ", file.bytes().size(), " bytes can hold, got ", count));
  }
  if (layout.kind == Index::single && count > 1) {
    throw CorruptFileError(cat("layout: expected one chunk, got ", count));
  }
  std::vector<ChunkPlace> chunks(count);
  if (count > 0) IndexReader(file, layout, has_filters, chunks).read();
  return chunks;
}

}  // namespace atompack::torch_cache
