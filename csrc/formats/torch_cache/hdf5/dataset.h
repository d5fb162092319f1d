// Rows of one dataset. Rows of variable length are read as references, and no size is trusted.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "formats/torch_cache/hdf5/chunk_index.h"
#include "formats/torch_cache/hdf5/hdf5_file.h"
#include "formats/torch_cache/hdf5/nodes.h"

namespace atompack::torch_cache {

// Datatypes and dataspaces: FORMAT.md#datatypes.
enum class TypeClass : uint8_t {
  integer = 0,
  floating = 1,
  text = 3,
  bits = 4,
  compound = 6,
  enumeration = 8,
  vlen = 9
};

struct Datatype {
  TypeClass type = TypeClass::integer;
  uint32_t flags = 0;              // 24 bits, whose meaning depends on the class
  uint32_t size = 0;               // bytes of one element
  Bytes numbers;                   // what describes integers, floats and bit fields
  std::unique_ptr<Datatype> base;  // of rows of variable length
  struct Member;
  std::vector<Member> members;  // of a compound

  bool is_little_endian() const { return size == 1 || (flags & 1) == 0; }
  bool is_signed() const { return (flags & 8) != 0; }
  bool is_variable_text() const { return type == TypeClass::vlen && (flags & 15) == 1; }
  // An integer of 1, 2, 4 or 8 bytes, all of whose bits count.
  bool is_plain_integer() const;
  // IEEE 754 of that many bytes, 4 or 8, in either order of bytes.
  bool is_ieee(uint32_t bytes) const;
};

struct Datatype::Member {
  std::string name;
  uint64_t offset = 0;
  Datatype type;
};

// Throws CorruptFileError or UnsupportedFormatError. What follows the type is left in the cursor.
Datatype read_datatype(MetadataCursor& cursor);

// Lengths of the dimensions; none for one value. Without an extent there are no values.
struct Dataspace {
  std::vector<uint64_t> lengths;
  bool is_null = false;

  // Throws CorruptFileError if their number overflows.
  uint64_t n_values() const;
};

Dataspace read_dataspace(MetadataCursor cursor);

// The filters of a dataset's chunks: FORMAT.md#filters.
struct Filter {
  static constexpr int kDeflate = 1, kShuffle = 2;
  int id = 0;
  std::string label;  // empty if it has none
  std::vector<uint32_t> parameters;
};

// In the order in which they were applied.
std::vector<Filter> read_filters(MetadataCursor cursor);

// One stored chunk of a dataset: reversal of its filters, and extraction of the needed bytes of each row.

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

// Writes the byte ranges of the first rows to `out`, one row after the other. Bit k of `filter_mask` means that filter
// k was skipped. `kept` is memory that later calls reuse. Throws CorruptFileError.
struct StoredChunk {
  Bytes bytes;
  uint32_t filter_mask = 0;
};
void unpack_chunk(const ChunkLayout& layout, const StoredChunk& chunk, uint64_t n_rows,
                  std::span<const ByteRange> ranges, std::span<std::byte> out, std::vector<std::byte>& kept);

// A member of a compound, as a byte range of the row.
struct TableMember {
  enum class Kind : uint8_t { signed_integer, unsigned_integer, floating } kind;
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
  std::vector<std::byte> read(std::span<const ByteRange> ranges) const;

 private:
  void check_filters(const std::vector<Filter>& filters);
  void check_shuffle(const Filter& shuffle);
  void check_claim() const;
  StoredChunk chunk_from(uint64_t first_row) const;

  const Hdf5File& file_;
  std::string name_;
  uint64_t n_rows_ = 0;
  Datatype type_;
  ChunkLayout layout_;
  std::vector<ChunkPlace> chunks_;
};

}  // namespace atompack::torch_cache
