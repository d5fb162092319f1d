// Rows of one dataset. Rows of variable length are read as references, and no size is trusted.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "formats/torch_cache/hdf5/chunk_index.h"
#include "formats/torch_cache/hdf5/datatype.h"
#include "formats/torch_cache/hdf5/filters.h"
#include "formats/torch_cache/hdf5/nodes.h"
#include "formats/torch_cache/rows/chunk.h"

namespace atompack::torch_cache {

// A member of a compound, as a byte range of the row.
struct TableMember {
  enum class Kind : uint8_t { signed_integer, unsigned_integer, floating, text } kind;
  ByteRange bytes;
};

class Dataset {
 public:
  // Throws CorruptFileError or UnsupportedFormatError unless the rows are chunked, with no filters other than shuffle
  // and deflate.
  explicit Dataset(const Node& node);

  uint64_t n_rows() const { return n_rows_; }

  // Throws CorruptFileError if the rows are not compounds with that member.
  TableMember member(const std::string& name) const;
  // Element type of rows of variable length.
  DType vlen_dtype() const;

  // Reads the given byte ranges of each row, one row after the other.
  std::vector<std::byte> read(std::span<const ByteRange> ranges, RowRange rows) const;

 private:
  void check_filters(const std::vector<Filter>& filters);
  void check_shuffle(const Filter& shuffle);
  void check_claim(uint64_t n_rows) const;
  StoredChunk chunk_from(uint64_t first_row) const;

  const Hdf5File& file_;
  std::string name_;
  uint64_t n_rows_ = 0;
  Datatype type_;
  ChunkLayout layout_;
  std::vector<ChunkPlace> chunks_;
};

}  // namespace atompack::torch_cache
