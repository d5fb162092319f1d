#include "formats/torch_cache/hdf5/fractal_heap.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "formats/torch_cache/hdf5/btree.h"

namespace atompack::torch_cache {

constexpr std::string_view kHeap = "fractal heap";
constexpr uint64_t kHeapHeaderBytes = 146;
constexpr uint64_t kHeapBlockBytes = 13;  // signature, version and the heap's address

FractalHeap::FractalHeap(const Hdf5File& file, uint64_t address) : file_(file), address_(address) {
  MetadataCursor header = file.at(address, kHeapHeaderBytes, kHeap);
  header.signature("FRHP");
  header.version(0);
  id_bytes_ = header.read<uint16_t>();
  if (const int filters = header.read<uint16_t>(); filters != 0) {
    throw UnsupportedFormatError(cat("fractal heap: expected no filters, got ", filters, " bytes of them"),
                                 header.offset());
  }
  file.checked(address, kHeapHeaderBytes, kHeap);
  has_checksums_ = (header.read<uint8_t>() & 2) != 0;
  const uint64_t max_managed = header.read<uint32_t>();
  header.take(8);
  huge_tree_ = header.read<uint64_t>();
  header.take(10 * 8);
  width_ = header.read<uint16_t>();
  start_bytes_ = header.read<uint64_t>();
  max_direct_bytes_ = header.read<uint64_t>();
  max_bits_ = header.read<uint16_t>();
  header.take(2);
  root_ = header.read<uint64_t>();
  root_rows_ = header.read<uint16_t>();
  if (!std::has_single_bit(width_) || !std::has_single_bit(start_bytes_) || !std::has_single_bit(max_direct_bytes_) ||
      max_direct_bytes_ < start_bytes_ || max_direct_bytes_ > UINT32_MAX || max_bits_ == 0 || max_bits_ > 56) {
    header.fail("widths and sizes that are powers of two", "others");
  }
  max_direct_rows_ = static_cast<size_t>(std::bit_width(max_direct_bytes_) - std::bit_width(start_bytes_)) + 2;
  offset_bytes_ = (max_bits_ + 7) / 8;
  length_bytes_ =
      std::min((static_cast<size_t>(std::bit_width(max_direct_bytes_)) - 1 + 7) / 8, bytes_for(max_managed));
  if (length_bytes_ == 0) header.fail("blocks of several bytes", max_direct_bytes_);
}

MetadataCursor FractalHeap::object(MetadataCursor id) const {
  constexpr int kManaged = 0, kHuge = 1;
  const auto first = id.read<uint8_t>();
  const int kind = first >> 4 & 3;
  if ((first & 0xC0) != 0) id.fail("an identifier of version 0", first >> 6);
  if (kind == kManaged) {
    const uint64_t offset = id.number(offset_bytes_);
    return managed(offset, id.number(length_bytes_));
  }
  if (kind != kHuge) id.fail("an object that is managed or huge", "another");
  return huge(id.number(std::min<size_t>(id_bytes_ - 1, 8)));
}

size_t FractalHeap::rows_of(uint64_t bytes) const {
  const uint64_t row = width_ * start_bytes_;
  if (bytes < row) return 0;
  return static_cast<size_t>(std::bit_width(bytes) - std::bit_width(row)) + 1;
}

// Down through the blocks of addresses, each of which covers a range of offsets.
MetadataCursor FractalHeap::managed(uint64_t offset, uint64_t length) const {
  uint64_t block = root_;
  uint64_t start = 0;  // offset of the block
  size_t n_rows = root_rows_;
  if (n_rows == 0) return in_direct_block(block, 0, start_bytes_, offset, length);
  while (true) {
    if (n_rows > max_bits_) throw_corrupt("fractal heap: expected at most ", max_bits_, " rows, got ", n_rows);
    const size_t direct_rows = std::min(n_rows, max_direct_rows_);
    const uint64_t table = kHeapBlockBytes + offset_bytes_;
    MetadataCursor indirect = file_.checked(block, table + n_rows * width_ * kAddressBytes + kChecksumBytes, kHeap);
    indirect.signature("FHIB");
    indirect.version(0);
    indirect.take(kAddressBytes);
    if (const uint64_t own = indirect.number(offset_bytes_); own != start) {
      indirect.fail(cat("the block of offset ", start), own);
    }
    const uint64_t inside = offset - start;
    size_t row = 0;
    while (row < n_rows && inside >= row_offset(row + 1)) ++row;
    if (row == n_rows) indirect.fail("an object in its blocks", cat("the offset ", offset));
    const uint64_t bytes = row_block_bytes(row);
    const uint64_t column = (inside - row_offset(row)) / bytes;
    indirect.take((row * width_ + column) * kAddressBytes);
    block = indirect.read<uint64_t>();
    start += row_offset(row) + column * bytes;
    if (row < direct_rows) return in_direct_block(block, start, bytes, offset, length);
    n_rows = rows_of(bytes);
  }
}

MetadataCursor FractalHeap::in_direct_block(uint64_t block, uint64_t block_offset, uint64_t block_bytes,
                                            uint64_t offset, uint64_t length) const {
  const uint64_t head = kHeapBlockBytes + offset_bytes_ + (has_checksums_ ? kChecksumBytes : 0);
  MetadataCursor direct = file_.at(block, block_bytes, kHeap);
  const Bytes whole = direct.rest();
  direct.signature("FHDB");
  direct.version(0);
  direct.take(kAddressBytes);
  if (const uint64_t own = direct.number(offset_bytes_); own != block_offset) {
    direct.fail(cat("the block of offset ", block_offset), own);
  }
  if (has_checksums_ && checked_.insert(block).second) {
    std::vector<std::byte> zeroed(whole.begin(), whole.end());  // it was computed without itself
    const uint32_t stored = direct.read<uint32_t>();
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(head - kChecksumBytes), kChecksumBytes, std::byte{0});
    if (lookup3(zeroed) != stored) direct.fail("bytes of its checksum", "others");
  }
  const uint64_t inside = offset - block_offset;
  if (inside < head || inside > block_bytes || length > block_bytes - inside) {
    direct.fail(cat("an object inside the block of ", block_bytes, " bytes"), cat(length, " bytes at ", inside));
  }
  return {whole.subspan(inside, length), file_.base() + block + inside, kHeap};
}

// Objects larger than blocks lie by themselves.
MetadataCursor FractalHeap::huge(uint64_t number) const {
  std::optional<MetadataCursor> found;
  if (huge_tree_ != Hdf5File::kNowhere) {
    for_each_record(file_, huge_tree_, RecordKind::huge_object, 24, [&](MetadataCursor record) {
      const auto address = record.read<uint64_t>();
      const auto length = record.read<uint64_t>();
      if (record.read<uint64_t>() == number) found.emplace(file_.at(address, length, kHeap));
    });
  }
  if (!found) throw_corrupt("fractal heap: expected a large object ", number, ", got none");
  return *found;
}

}  // namespace atompack::torch_cache
