// Fractal heaps, which hold the links and attributes of objects that have many: FORMAT.md#fractal-heaps.
#pragma once

#include <set>

#include "formats/torch_cache/hdf5/hdf5_file.h"

namespace atompack::torch_cache {

class FractalHeap {
 public:
  // Throws CorruptFileError, or UnsupportedFormatError for a heap with filters.
  FractalHeap(const Hdf5File& file, uint64_t address);

  size_t id_bytes() const { return id_bytes_; }
  // The object of an identifier.
  MetadataCursor object(MetadataCursor id) const;

 private:
  MetadataCursor managed(uint64_t offset, uint64_t length) const;
  MetadataCursor in_direct_block(uint64_t block, uint64_t block_offset, uint64_t block_bytes, uint64_t offset,
                                 uint64_t length) const;
  MetadataCursor huge(uint64_t number) const;
  // For a row of the doubling table: bytes of each block, and of all rows before it.
  uint64_t row_block_bytes(size_t row) const { return row < 2 ? start_bytes_ : start_bytes_ << (row - 1); }
  uint64_t row_offset(size_t row) const { return row == 0 ? 0 : (width_ * start_bytes_) << (row - 1); }
  size_t rows_of(uint64_t bytes) const;

  const Hdf5File& file_;
  uint64_t address_;
  size_t id_bytes_ = 0, offset_bytes_ = 0, length_bytes_ = 0;
  bool has_checksums_ = false;
  uint64_t huge_tree_ = 0;
  uint64_t width_ = 0, start_bytes_ = 0, max_direct_bytes_ = 0;
  size_t max_bits_ = 0, max_direct_rows_ = 0;
  uint64_t root_ = 0;
  size_t root_rows_ = 0;
  mutable std::set<uint64_t> checked_;  // direct blocks
};

}  // namespace atompack::torch_cache
