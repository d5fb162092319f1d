// The rows of one data set, without the library's conversions: it finds the chunks, and their bytes are decoded here.
// Rows of variable length come so as the references that they are, and no size is believed. Needs an H5Session.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/hdf5/h5_handle.h"
#include "formats/torch_cache/rows/chunk.h"

namespace atompack::torch_cache {

// A member of a table, by the bytes it takes in a row.
struct TableMember {
  enum class Kind : uint8_t { signed_integer, unsigned_integer, floating, text } kind;
  ByteRange bytes;
};

class H5Dataset {
 public:
  // `name` is what errors call it. Throws CorruptFileError or UnsupportedFormatError unless its rows are stored in
  // chunks through no other filters than shuffle and deflate.
  H5Dataset(H5Handle dataset, std::string name);

  uint64_t n_rows() const { return n_rows_; }

  // Throws CorruptFileError if the rows are no compounds with that member.
  TableMember member(const std::string& name) const;
  // The type of the elements of rows of variable length.
  DType vlen_dtype() const;

  // The given bytes of each row, one row after the other. `file_bytes` bounds what a chunk can hold.
  std::vector<std::byte> read(std::span<const ByteRange> ranges, RowRange rows, uint64_t file_bytes) const;

 private:
  void read_filters(hid_t creation);
  void read_filter(hid_t creation, unsigned number);
  void check_shuffle(std::span<const unsigned> parameters, size_t count);
  void check_claim(uint64_t n_rows, uint64_t file_bytes) const;
  void read_chunk(uint64_t first_row, uint64_t file_bytes, StoredChunk& chunk, std::vector<std::byte>& kept) const;

  H5Handle dataset_, type_;
  std::string name_;
  uint64_t n_rows_ = 0;
  ChunkLayout layout_;
};

}  // namespace atompack::torch_cache
