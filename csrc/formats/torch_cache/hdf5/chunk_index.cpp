#include "formats/torch_cache/hdf5/chunk_index.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/checked_math.h"
#include "formats/torch_cache/hdf5/btree.h"

namespace atompack::torch_cache {
namespace {

// Chunk indexes that are arrays, of a fixed length and of one that grows: FORMAT.md#chunk-indexes.

// An element of an array is an address; with filters, also the stored size and a filter mask.
struct ChunkElement {
  bool has_filters = false;
  uint64_t chunk_bytes = 0;  // without filters

  ChunkPlace read(MetadataCursor& cursor, size_t element_bytes) const;
};

constexpr uint64_t kArrayBlockBytes = 14;  // signature, version, kind of elements and the address of the header

// The beginning of the header and of each block.
void check_head(MetadataCursor& cursor, std::string_view signature, const ChunkElement& element) {
  cursor.signature(signature);
  cursor.version(0);
  const int kind = cursor.read<uint8_t>();
  if (kind != (element.has_filters ? 1 : 0)) cursor.fail(cat("elements of kind ", element.has_filters ? 1 : 0), kind);
}

size_t read_element_bytes(MetadataCursor& cursor, const ChunkElement& element) {
  const size_t bytes = cursor.read<uint8_t>();
  const size_t least = element.has_filters ? kAddressBytes + 1 + 4 : kAddressBytes;
  const size_t most = element.has_filters ? kAddressBytes + 8 + 4 : kAddressBytes;
  if (bytes < least || bytes > most) cursor.fail(cat("elements of ", least, " to ", most, " bytes"), bytes);
  return bytes;
}

void read_elements(MetadataCursor& cursor, const ChunkElement& element, size_t element_bytes,
                   std::span<ChunkPlace> chunks) {
  for (ChunkPlace& chunk : chunks) chunk = element.read(cursor, element_bytes);
}

bool has_bit(Bytes bits, uint64_t number) {
  return (static_cast<unsigned>(bits[number / 8]) & (0x80U >> (number % 8))) != 0;
}

// Elements in pages, each with its own checksum; those whose bit is not set were never written.
struct Pages {
  uint64_t elements, count;  // in a page, and of pages
  Bytes written;             // bits
  uint64_t first_bit = 0;

  void read(const Hdf5File& file, uint64_t at, uint64_t n_elements, const ChunkElement& element, size_t element_bytes,
            std::span<ChunkPlace> chunks, std::string_view what) const {
    for (uint64_t page = 0; page < count && page * elements < chunks.size(); ++page) {
      const uint64_t first = page * elements;
      const uint64_t bytes = std::min(elements, n_elements - first) * element_bytes + kChecksumBytes;
      if (has_bit(written, first_bit + page)) {
        MetadataCursor cursor = file.checked(at, bytes, what);
        const uint64_t wanted = std::min<uint64_t>(elements, chunks.size() - first);
        read_elements(cursor, element, element_bytes, chunks.subspan(first, wanted));
      }
      at = checked_add(at, elements * element_bytes + kChecksumBytes, what);
    }
  }
};

ChunkPlace ChunkElement::read(MetadataCursor& cursor, size_t element_bytes) const {
  ChunkPlace place;
  place.address = cursor.read<uint64_t>();
  place.bytes = has_filters ? cursor.number(element_bytes - kAddressBytes - 4) : chunk_bytes;
  place.filter_mask = has_filters ? cursor.read<uint32_t>() : 0;
  return place;
}

// Reads the locations of as many chunks as there are in `chunks`; those that no block holds are left alone.
void read_fixed_array(const Hdf5File& file, uint64_t address, const ChunkElement& element,
                      std::span<ChunkPlace> chunks) {
  constexpr std::string_view kName = "fixed array";
  MetadataCursor header = file.checked(address, 28, kName);
  check_head(header, "FAHD", element);
  const size_t element_bytes = read_element_bytes(header, element);
  const size_t page_bits = header.read<uint8_t>();
  const auto n_elements = header.read<uint64_t>();
  const auto block = header.read<uint64_t>();
  if (page_bits > 32) header.fail("pages of at most 2^32 elements", page_bits);
  if (n_elements < chunks.size()) header.fail(cat(chunks.size(), " elements"), n_elements);
  if (n_elements > file.bytes().size()) header.fail("elements that the file can hold", n_elements);
  if (block == Hdf5File::kNowhere) return;
  const uint64_t in_page = uint64_t{1} << page_bits;
  if (n_elements <= in_page) {
    MetadataCursor data = file.checked(block, kArrayBlockBytes + n_elements * element_bytes + kChecksumBytes, kName);
    check_head(data, "FADB", element);
    data.take(kAddressBytes);
    return read_elements(data, element, element_bytes, chunks);
  }
  const uint64_t n_pages = (n_elements + in_page - 1) / in_page;
  const uint64_t bitmap = (n_pages + 7) / 8;
  MetadataCursor data = file.checked(block, kArrayBlockBytes + bitmap + kChecksumBytes, kName);
  check_head(data, "FADB", element);
  data.take(kAddressBytes);
  Pages{in_page, n_pages, data.take(bitmap)}.read(file, block + kArrayBlockBytes + bitmap + kChecksumBytes, n_elements,
                                                  element, element_bytes, chunks, kName);
}

// The first elements lie in the index block, the others in data blocks that grow. Every second super block doubles the
// number of its data blocks, the others their length; those of the first super blocks are listed in the index block.
class ExtensibleArray {
 public:
  ExtensibleArray(const Hdf5File& file, uint64_t address, const ChunkElement& element)
      : file_(file), element_(element) {
    MetadataCursor header = file.checked(address, 72, kName);
    check_head(header, "EAHD", element);
    element_bytes_ = read_element_bytes(header, element);
    max_bits_ = header.read<uint8_t>();
    n_in_index_ = header.read<uint8_t>();
    block_elements_ = header.read<uint8_t>();
    min_pointers_ = header.read<uint8_t>();
    const size_t page_bits = header.read<uint8_t>();
    header.take(6 * 8);
    index_ = header.read<uint64_t>();
    if (max_bits_ == 0 || max_bits_ > 64 || page_bits > 32 || !std::has_single_bit(block_elements_) ||
        !std::has_single_bit(min_pointers_) || static_cast<uint64_t>(std::bit_width(block_elements_)) > max_bits_) {
      header.fail("numbers of elements that are powers of two", "others");
    }
    page_elements_ = uint64_t{1} << page_bits;
  }

  void read(std::span<ChunkPlace> chunks) {
    if (index_ == Hdf5File::kNowhere) return;
    chunks_ = chunks;
    const uint64_t n_super = 1 + max_bits_ - (static_cast<uint64_t>(std::bit_width(block_elements_)) - 1);
    const uint64_t n_direct_super = 2 * (static_cast<uint64_t>(std::bit_width(min_pointers_)) - 1);
    const uint64_t n_direct = 2 * (min_pointers_ - 1);
    const uint64_t n_listed = n_super > n_direct_super ? n_super - n_direct_super : 0;
    MetadataCursor index = file_.checked(
        index_,
        kArrayBlockBytes + n_in_index_ * element_bytes_ + (n_direct + n_listed) * kAddressBytes + kChecksumBytes,
        kName);
    check_head(index, "EAIB", element_);
    index.take(kAddressBytes);
    const uint64_t first = std::min<uint64_t>(n_in_index_, chunks.size());
    MetadataCursor elements = index;
    read_elements(elements, element_, element_bytes_, chunks.first(first));
    index.take(n_in_index_ * element_bytes_);
    next_ = n_in_index_;
    for (uint64_t super = 0; super < n_super && next_ < chunks.size(); ++super) {
      const uint64_t n_blocks = uint64_t{1} << (super / 2);
      const uint64_t length = checked_mul(uint64_t{1} << ((super + 1) / 2), block_elements_, kName);
      if (super < n_direct_super) {
        for (uint64_t i = 0; i < n_blocks; ++i) read_block(index.read<uint64_t>(), length, {}, 0);
      } else {
        read_super_block(index.read<uint64_t>(), n_blocks, length);
      }
    }
  }

 private:
  static constexpr std::string_view kName = "extensible array";

  uint64_t offset_bytes() const { return (max_bits_ + 7) / 8; }
  uint64_t pages_of(uint64_t length) const { return length > page_elements_ ? length / page_elements_ : 0; }

  void read_super_block(uint64_t address, uint64_t n_blocks, uint64_t length) {
    if (address == Hdf5File::kNowhere) {
      next_ = checked_add(next_, checked_mul(n_blocks, length, kName), kName);
      return;
    }
    const uint64_t bitmap = (pages_of(length) + 7) / 8;  // of one data block
    const uint64_t per_block = checked_add(bitmap, kAddressBytes, kName);
    const uint64_t bytes =
        checked_add(kArrayBlockBytes + offset_bytes() + kChecksumBytes, checked_mul(n_blocks, per_block, kName), kName);
    MetadataCursor block = file_.checked(address, bytes, kName);
    check_head(block, "EASB", element_);
    block.take(kAddressBytes + offset_bytes());
    const Bytes written = block.take(n_blocks * bitmap);
    for (uint64_t i = 0; i < n_blocks && next_ < chunks_.size(); ++i) {
      read_block(block.read<uint64_t>(), length, written, i * pages_of(length));
    }
  }

  // The next elements, as many as are requested of `length`. The bits of its pages follow those of the block before.
  void read_block(uint64_t address, uint64_t length, Bytes written, uint64_t first_bit) {
    const uint64_t first = next_;
    next_ = checked_add(next_, length, kName);
    if (address == Hdf5File::kNowhere || first >= chunks_.size()) return;
    const auto wanted = chunks_.subspan(first, std::min<uint64_t>(length, chunks_.size() - first));
    const uint64_t head = kArrayBlockBytes + offset_bytes();
    const uint64_t n_pages = pages_of(length);
    const uint64_t elements = n_pages == 0 ? checked_mul(length, element_bytes_, kName) : 0;
    MetadataCursor block = file_.checked(address, checked_add(head + kChecksumBytes, elements, kName), kName);
    check_head(block, "EADB", element_);
    block.take(kAddressBytes + offset_bytes());
    if (n_pages == 0) return read_elements(block, element_, element_bytes_, wanted);
    if (written.size() * 8 < first_bit + n_pages) block.fail("pages in a block of a super block", "others");
    Pages{page_elements_, n_pages, written, first_bit}.read(file_, address + head + kChecksumBytes, length, element_,
                                                            element_bytes_, wanted, kName);
  }

  const Hdf5File& file_;
  ChunkElement element_;
  size_t element_bytes_ = 0;
  uint64_t max_bits_ = 0, n_in_index_ = 0, block_elements_ = 0, min_pointers_ = 0, page_elements_ = 0;
  uint64_t index_ = 0;
  std::span<ChunkPlace> chunks_;
  uint64_t next_ = 0;
};

void read_extensible_array(const Hdf5File& file, uint64_t address, const ChunkElement& element,
                           std::span<ChunkPlace> chunks) {
  ExtensibleArray(file, address, element).read(chunks);
}

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
      if (number >= chunks_.size()) return;  // left over from a larger number of rows
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
