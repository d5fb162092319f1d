// Rows of one dataset, read without the library's conversions: HDF5 locates the chunks, and they are decoded here. Rows
// of variable length are thus read as references, and no size is trusted. Needs an H5Session.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/hdf5/h5_handle.h"
#include "formats/torch_cache/rows/chunk.h"

namespace atompack::torch_cache {

// A member of a compound, as a byte range of the row.
struct TableMember {
  enum class Kind : uint8_t { signed_integer, unsigned_integer, floating, text } kind;
  ByteRange bytes;
};

class H5Dataset {
 public:
  // `name` is used in errors. Throws CorruptFileError or UnsupportedFormatError unless the rows are chunked, with no
  // filters other than shuffle and deflate.
  H5Dataset(H5Handle dataset, std::string name);

  uint64_t n_rows() const { return n_rows_; }

  // Throws CorruptFileError if the rows are not compounds with that member.
  TableMember member(const std::string& name) const;
  // Element type of rows of variable length.
  DType vlen_dtype() const;

  // Reads the given byte ranges of each row, one row after the other. `file_bytes` limits what a chunk can hold.
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
