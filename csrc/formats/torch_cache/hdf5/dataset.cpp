#include "formats/torch_cache/hdf5/dataset.h"

#include <algorithm>

#include "base/checked_math.h"

namespace atompack::torch_cache {
namespace {

uint64_t extent_of(const Node& node) {
  const Message& message = node.header().need(MessageType::dataspace, "dataspace");
  const Dataspace space = read_dataspace(message.cursor("dataspace"));
  if (space.lengths.size() != 1) {
    throw CorruptFileError(cat("expected one dimension, got ", space.lengths.size()));
  }
  return space.lengths[0];
}

Datatype type_of(const Node& node) {
  MetadataCursor cursor = node.header().need(MessageType::datatype, "datatype").cursor("datatype");
  return read_datatype(cursor);
}

TableMember::Kind kind_of(const Datatype& type, const std::string& what) {
  using Kind = TableMember::Kind;
  if (type.type == TypeClass::text) return Kind::text;
  if (type.type == TypeClass::bits && type.size == 1) return Kind::unsigned_integer;
  if ((type.is_ieee(4) || type.is_ieee(8)) && type.is_little_endian()) return Kind::floating;
  if (type.is_plain_integer() && type.is_little_endian()) {
    return type.is_signed() ? Kind::signed_integer : Kind::unsigned_integer;
  }
  throw UnsupportedFormatError(
      cat(what, ": expected little-endian integers, floats, bit fields of 8 bits or fixed text, got type class ",
          static_cast<int>(type.type)));
}

}  // namespace

Dataset::Dataset(const Node& node) : file_(node.file()), name_(node.path()) {
  node.at_path([&] {
    n_rows_ = extent_of(node);
    type_ = type_of(node);
    const ChunkedLayout stored = read_layout(node.header().need(MessageType::layout, "layout").cursor("layout"));
    if (stored.element_bytes != type_.size) {
      throw CorruptFileError(cat("layout: expected elements of ", type_.size, " bytes, got ", stored.element_bytes));
    }
    layout_ = {stored.shape.n_rows, type_.size, {}, {}};
    std::vector<Filter> filters;
    if (const Message* const stated = node.header().find(MessageType::filters)) {
      filters = read_filters(stated->cursor("filters"));
    }
    check_filters(filters);
    chunks_ = read_chunk_index(file_, stored, n_rows_, !filters.empty());
  });
}

void Dataset::check_filters(const std::vector<Filter>& filters) {
  for (unsigned number = 0; number < filters.size(); ++number) {
    const Filter& filter = filters[number];
    if (filter.id == Filter::kDeflate && !layout_.deflate) {
      layout_.deflate = number;
    } else if (filter.id == Filter::kShuffle && !layout_.shuffle) {
      layout_.shuffle = number;
      check_shuffle(filter);
    } else {
      throw UnsupportedFormatError(cat("expected no filters but shuffle and deflate, got ",
                                       filter.label.empty() ? "one without a name" : filter.label, " (filter ",
                                       filter.id, ")"));
    }
  }
  if (layout_.shuffle && layout_.deflate && *layout_.shuffle > *layout_.deflate) {
    throw UnsupportedFormatError("filters: expected shuffle before deflate, got it after");
  }
}

// For rows of variable length the library skips the filter in every chunk; it has no size then.
void Dataset::check_shuffle(const Filter& shuffle) {
  if (shuffle.parameters.empty() && type_.type == TypeClass::vlen) return;
  const uint32_t got = shuffle.parameters.empty() ? 0 : shuffle.parameters[0];
  if (got != layout_.element_bytes) {
    throw CorruptFileError(cat("filter shuffle: expected elements of ", layout_.element_bytes, " bytes, got ", got));
  }
}

TableMember Dataset::member(const std::string& name) const {
  const std::string what = name_ + "." + name;
  if (type_.type != TypeClass::compound) throw CorruptFileError(cat(name_, ": expected a table"));
  const auto found = std::ranges::find(type_.members, name, &Datatype::Member::name);
  if (found == type_.members.end()) throw CorruptFileError(cat(what, ": expected a column, got none"));
  const ByteRange bytes{found->offset, found->type.size};
  if (bytes.length == 0 || bytes.offset > layout_.element_bytes ||
      bytes.length > layout_.element_bytes - bytes.offset) {
    throw CorruptFileError(cat(what, ": expected a column inside rows of ", layout_.element_bytes, " bytes, got ",
                               bytes.length, " at ", bytes.offset));
  }
  return {kind_of(found->type, what), bytes};
}

DType Dataset::vlen_dtype() const {
  if (type_.type != TypeClass::vlen || type_.is_variable_text()) {
    throw CorruptFileError(cat(name_, ": expected rows of variable length"));
  }
  if (layout_.element_bytes != 16) {
    throw CorruptFileError(cat(name_, ": expected references of 16 bytes, got ", layout_.element_bytes));
  }
  const Datatype& base = *type_.base;
  if (base.is_little_endian()) {
    if (base.is_ieee(4)) return DType::float32;
    if (base.is_ieee(8)) return DType::float64;
    if (base.is_plain_integer() && base.size == 1 && !base.is_signed()) return DType::uint8;
    if (base.is_plain_integer() && base.size == 4 && base.is_signed()) return DType::int32;
    if (base.is_plain_integer() && base.size == 8 && base.is_signed()) return DType::int64;
  }
  throw UnsupportedFormatError(cat(name_,
                                   ": expected rows of little-endian uint8, int32, int64, float32 or float64, "
                                   "got another type of ",
                                   base.size, " bytes"));
}

StoredChunk Dataset::chunk_from(uint64_t first_row) const {
  const ChunkPlace& place = chunks_[first_row / layout_.n_rows];
  if (place.address == Hdf5File::kNowhere || place.bytes == 0) {
    throw CorruptFileError(cat(name_, ": rows from ", first_row, " on were never written"));
  }
  return {file_.at(place.address, place.bytes, "chunk").rest(), place.filter_mask};
}

// A header may claim any number of rows: memory is allocated only for those that the stored chunks can hold.
void Dataset::check_claim(uint64_t n_rows) const {
  constexpr uint64_t kSmall = uint64_t{16} << 20, kDeflateRatio = 1032;
  const uint64_t bytes = checked_mul(n_rows, layout_.element_bytes, name_);
  if (bytes <= kSmall) return;
  uint64_t stored = 0;
  for (const ChunkPlace& chunk : chunks_) stored += std::min<uint64_t>(chunk.bytes, file_.bytes().size());
  stored = std::min<uint64_t>(stored, file_.bytes().size());
  if (bytes / (layout_.deflate ? kDeflateRatio : 1) > stored) {
    throw CorruptFileError(cat(name_, ": expected rows that ", stored, " stored bytes can hold, got ", n_rows));
  }
}

std::vector<std::byte> Dataset::read(std::span<const ByteRange> ranges, RowRange rows) const {
  if (rows.first > n_rows_ || rows.count > n_rows_ - rows.first) throw InternalError("rows that the data set lacks");
  check_claim(rows.count);
  const size_t stride = total_length(ranges);
  std::vector<std::byte> out(checked_mul(rows.count, stride, name_));
  std::vector<std::byte> decoded;
  std::span<std::byte> left = out;
  const uint64_t end = rows.first + rows.count;
  for (uint64_t row = rows.first; row < end;) {
    const uint64_t inside = row % layout_.n_rows;
    const uint64_t count = std::min(end - row, layout_.n_rows - inside);
    const StoredChunk chunk = chunk_from(row - inside);
    try {
      unpack_chunk(layout_, chunk, {inside, count}, ranges, left.first(count * stride), decoded);
    } catch (DataError& error) {
      error.shift_offset(0, cat(" of the chunk of ", name_, " from row ", row - inside));
      throw;
    }
    left = left.subspan(count * stride);
    row += count;
  }
  return out;
}

}  // namespace atompack::torch_cache
