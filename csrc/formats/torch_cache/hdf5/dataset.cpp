#include "formats/torch_cache/hdf5/dataset.h"

#include <algorithm>

#include "base/checked_math.h"
#include "codec/inflate.h"

namespace atompack::torch_cache {
namespace {

// Nesting of types; those of this format have one level.
constexpr int kMaxDepth = 8;

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

std::string read_name(MetadataCursor& cursor, bool is_padded) {
  const std::string_view rest = as_text(cursor.rest());
  const size_t length = rest.find('\0');
  if (length == std::string_view::npos) cursor.fail("a name that ends", "one without its end");
  const std::string name(rest.substr(0, length));
  cursor.take(is_padded ? padded(length + 1) : length + 1);
  return name;
}

class TypeReader {
 public:
  explicit TypeReader(MetadataCursor& cursor) : cursor_(cursor) {}

  Datatype read(int depth = 0) {
    if (depth == kMaxDepth) cursor_.fail(cat("at most ", kMaxDepth, " types in each other"), "more");
    const auto head = cursor_.read<uint32_t>();
    const auto version = static_cast<int>(head >> 4 & 15);
    const auto kind = static_cast<int>(head & 15);
    if (version < 1 || version > 5) refuse(kind, version);
    Datatype found;
    found.type = static_cast<TypeClass>(kind);
    found.flags = head >> 8;
    found.size = cursor_.read<uint32_t>();
    read_rest(found, version, depth);
    return found;
  }

 private:
  [[noreturn]] void refuse(int kind, int version) const {
    throw UnsupportedFormatError(
        cat("datatype: expected a known class and version, got ", kind, " of version ", version), cursor_.offset() - 4);
  }

  void read_rest(Datatype& found, int version, int depth) {
    switch (found.type) {
      case TypeClass::integer:
      case TypeClass::bits:
        found.numbers = cursor_.take(4);
        return;
      case TypeClass::floating:
        found.numbers = cursor_.take(12);
        return;
      case TypeClass::compound:
        return read_members(found, version, depth);
      case TypeClass::enumeration:
        return read_enumeration(found.flags & 0xFFFF, version, depth);
      case TypeClass::vlen:
        found.base = std::make_unique<Datatype>(read(depth + 1));
        return;
      case TypeClass::text:
        return;
    }
    refuse(static_cast<int>(found.type), version);
  }

  void read_members(Datatype& found, int version, int depth) {
    const size_t count = found.flags & 0xFFFF;
    size_t width = 4;  // of offsets, from version 3 on as few bytes as the size needs
    if (version >= 3) {
      width = 1;
      while (width < 4 && found.size >> (8 * width) != 0) ++width;
    }
    for (size_t i = 0; i < count; ++i) {
      Datatype::Member member;
      member.name = read_name(cursor_, version < 3);
      member.offset = cursor_.number(width);
      if (version == 1) {
        if (const int rank = cursor_.read<uint8_t>(); rank != 0) cursor_.fail("columns of single values", rank);
        cursor_.take(27);
      }
      member.type = read(depth + 1);
      found.members.push_back(std::move(member));
    }
  }

  void read_enumeration(size_t count, int version, int depth) {
    const Datatype base = read(depth + 1);
    for (size_t i = 0; i < count; ++i) read_name(cursor_, version < 3);
    cursor_.take(count * uint64_t{base.size});
  }

  MetadataCursor& cursor_;
};

constexpr int kFirstOfOthers = 256;  // ids from here on have a label in version 2

Filter read_filter(MetadataCursor& cursor, int version) {
  Filter filter;
  filter.id = cursor.read<uint16_t>();
  uint64_t label_bytes = version == 1 || filter.id >= kFirstOfOthers ? cursor.read<uint16_t>() : 0;
  cursor.take(2);
  const int n_parameters = cursor.read<uint16_t>();
  if (version == 1) label_bytes = (label_bytes + 7) / 8 * 8;
  const std::string_view label = as_text(cursor.take(label_bytes));
  filter.label = label.substr(0, label.find('\0'));
  for (int i = 0; i < n_parameters; ++i) filter.parameters.push_back(cursor.read<uint32_t>());
  if (version == 1 && n_parameters % 2 != 0) cursor.take(4);
  return filter;
}

bool is_applied(std::optional<unsigned> filter, uint32_t mask) { return filter && (mask >> *filter & 1) == 0; }

// Checks the size claimed by the layout against the stored bytes before memory is allocated.
void check_size(uint64_t claimed, uint64_t stored, bool deflated) {
  const uint64_t limit = deflated ? checked_mul(stored, codec::kMaxInflateRatio, "chunk") : stored;
  if (claimed > limit || (!deflated && claimed != stored)) {
    throw_corrupt("chunk: ", stored, " stored bytes hold at most ", limit, ", expected ", claimed);
  }
}

// Shuffled data: byte k of all elements is contiguous.
void pick_shuffled(const ChunkLayout& layout, Bytes data, uint64_t n_rows, std::span<const ByteRange> ranges,
                   std::byte* to) {
  const size_t stride = total_length(ranges);
  size_t column = 0;
  for (const ByteRange& range : ranges) {
    for (size_t k = 0; k < range.length; ++k, ++column) {
      const std::byte* const from = data.data() + (range.offset + k) * layout.n_rows;
      for (uint64_t row = 0; row < n_rows; ++row) to[row * stride + column] = from[row];
    }
  }
}

void pick_plain(const ChunkLayout& layout, Bytes data, uint64_t n_rows, std::span<const ByteRange> ranges,
                std::byte* to) {
  const std::byte* from = data.data();
  for (uint64_t row = 0; row < n_rows; ++row, from += layout.element_bytes) {
    for (const ByteRange& range : ranges) to = store(to, {from + range.offset, range.length});
  }
}

uint64_t extent_of(const Node& node) {
  const Message& message = node.header().need(MessageType::dataspace, "dataspace");
  const Dataspace space = read_dataspace(message.cursor("dataspace"));
  if (space.lengths.size() != 1) throw_corrupt("expected one dimension, got ", space.lengths.size());
  return space.lengths[0];
}

Datatype type_of(const Node& node) {
  MetadataCursor cursor = node.header().need(MessageType::datatype, "datatype").cursor("datatype");
  return read_datatype(cursor);
}

TableMember::Kind kind_of(const Datatype& type, const std::string& what) {
  using Kind = TableMember::Kind;
  if (type.type == TypeClass::bits && type.size == 1) return Kind::unsigned_integer;
  if ((type.is_ieee(4) || type.is_ieee(8)) && type.is_little_endian()) return Kind::floating;
  if (type.is_plain_integer() && type.is_little_endian()) {
    return type.is_signed() ? Kind::signed_integer : Kind::unsigned_integer;
  }
  throw UnsupportedFormatError(cat(what,
                                   ": expected little-endian integers, floats or bit fields of 8 bits, got type class ",
                                   static_cast<int>(type.type)));
}

}  // namespace

bool Datatype::is_plain_integer() const {
  if (type != TypeClass::integer || (size != 1 && size != 2 && size != 4 && size != 8)) return false;
  return load_le<uint16_t>(numbers.data()) == 0 && load_le<uint16_t>(numbers.data() + 2) == 8 * size;
}

bool Datatype::is_ieee(uint32_t bytes) const {
  if (type != TypeClass::floating || size != bytes || (bytes != 4 && bytes != 8)) return false;
  constexpr uint32_t kImplied = 2, kVax = 64;  // leading bit of the mantissa; middle order of bytes
  const bool is_single = bytes == 4;
  const uint8_t mantissa = is_single ? 23 : 52;
  const std::byte* const at = numbers.data();
  return (flags & kVax) == 0 && (flags >> 4 & 3) == kImplied && (flags >> 8 & 0xFF) == 8 * bytes - 1 &&
         load_le<uint16_t>(at) == 0 && load_le<uint16_t>(at + 2) == 8 * bytes && load_le<uint8_t>(at + 4) == mantissa &&
         load_le<uint8_t>(at + 5) == (is_single ? 8 : 11) && load_le<uint8_t>(at + 6) == 0 &&
         load_le<uint8_t>(at + 7) == mantissa && load_le<uint32_t>(at + 8) == (is_single ? 127 : 1023);
}

Datatype read_datatype(MetadataCursor& cursor) { return TypeReader(cursor).read(); }

uint64_t Dataspace::n_values() const {
  uint64_t n = is_null ? 0 : 1;
  for (const uint64_t length : lengths) n = checked_mul(n, length, "dataspace");
  return n;
}

Dataspace read_dataspace(MetadataCursor cursor) {
  const int version = cursor.read<uint8_t>();
  const int rank = cursor.read<uint8_t>();
  cursor.take(1);
  if (version != 1 && version != 2) {
    throw UnsupportedFormatError(cat("dataspace: expected version 1 or 2, got ", version), cursor.offset() - 3);
  }
  constexpr int kNull = 2;
  Dataspace found;
  if (version == 1) {
    cursor.take(5);
  } else {
    found.is_null = cursor.read<uint8_t>() == kNull;
  }
  for (int i = 0; i < rank; ++i) found.lengths.push_back(cursor.read<uint64_t>());
  return found;
}

std::vector<Filter> read_filters(MetadataCursor cursor) {
  const int version = cursor.read<uint8_t>();
  const int count = cursor.read<uint8_t>();
  if (version != 1 && version != 2) {
    throw UnsupportedFormatError(cat("filters: expected version 1 or 2, got ", version), cursor.offset() - 2);
  }
  if (version == 1) cursor.take(6);
  std::vector<Filter> filters;
  for (int i = 0; i < count; ++i) filters.push_back(read_filter(cursor, version));
  return filters;
}

size_t total_length(std::span<const ByteRange> ranges) {
  size_t total = 0;
  for (const ByteRange& range : ranges) total += range.length;
  return total;
}

void unpack_chunk(const ChunkLayout& layout, const StoredChunk& chunk, uint64_t n_rows,
                  std::span<const ByteRange> ranges, std::span<std::byte> out, std::vector<std::byte>& kept) {
  const bool deflated = is_applied(layout.deflate, chunk.filter_mask);
  const uint64_t bytes = checked_mul(layout.n_rows, layout.element_bytes, "chunk");
  check_size(bytes, chunk.bytes.size(), deflated);
  if (n_rows > layout.n_rows || out.size() != n_rows * total_length(ranges)) {
    throw InternalError("unpack_chunk: rows that the chunk does not have");
  }
  Bytes data = chunk.bytes;
  if (deflated) {
    kept.resize(bytes);
    codec::inflate(chunk.bytes, kept);
    data = kept;
  }
  if (is_applied(layout.shuffle, chunk.filter_mask)) {
    pick_shuffled(layout, data, n_rows, ranges, out.data());
  } else {
    pick_plain(layout, data, n_rows, ranges, out.data());
  }
}

Dataset::Dataset(const Node& node) : file_(node.file()), name_(node.path()) {
  node.at_path([&] {
    n_rows_ = extent_of(node);
    type_ = type_of(node);
    const ChunkedLayout stored = read_layout(node.header().need(MessageType::layout, "layout").cursor("layout"));
    if (stored.element_bytes != type_.size) {
      throw_corrupt("layout: expected elements of ", type_.size, " bytes, got ", stored.element_bytes);
    }
    layout_ = {stored.chunk_rows, type_.size, {}, {}};
    if (const Message* const filters = node.header().find(MessageType::filters)) {
      check_filters(read_filters(filters->cursor("filters")));
    }
    chunks_ = read_chunk_index(file_, stored, n_rows_);
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

// For rows of variable length the library skips the filter in every chunk; it has no size in that case.
void Dataset::check_shuffle(const Filter& shuffle) {
  if (shuffle.parameters.empty() && type_.type == TypeClass::vlen) return;
  const uint32_t got = shuffle.parameters.empty() ? 0 : shuffle.parameters[0];
  if (got != layout_.element_bytes) {
    throw_corrupt("filter shuffle: expected elements of ", layout_.element_bytes, " bytes, got ", got);
  }
}

TableMember Dataset::member(const std::string& name) const {
  const std::string what = name_ + "." + name;
  if (type_.type != TypeClass::compound) throw_corrupt(name_, ": expected a table");
  const auto found = std::ranges::find(type_.members, name, &Datatype::Member::name);
  if (found == type_.members.end()) throw_corrupt(what, ": expected a column, got none");
  const ByteRange bytes{found->offset, found->type.size};
  if (bytes.length == 0 || bytes.offset > layout_.element_bytes ||
      bytes.length > layout_.element_bytes - bytes.offset) {
    throw_corrupt(what, ": expected a column inside rows of ", layout_.element_bytes, " bytes, got ", bytes.length,
                  " at ", bytes.offset);
  }
  return {kind_of(found->type, what), bytes};
}

DType Dataset::vlen_dtype() const {
  if (type_.type != TypeClass::vlen || type_.is_variable_text()) {
    throw_corrupt(name_, ": expected rows of variable length");
  }
  if (layout_.element_bytes != 16) {
    throw_corrupt(name_, ": expected references of 16 bytes, got ", layout_.element_bytes);
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
    throw_corrupt(name_, ": rows from ", first_row, " on were never written");
  }
  return {file_.at(place.address, place.bytes, "chunk").rest(), place.filter_mask};
}

// A header may claim any number of rows: memory is allocated only for those that the stored chunks can hold.
void Dataset::check_claim() const {
  constexpr uint64_t kSmall = uint64_t{16} << 20, kDeflateRatio = 1032;
  const uint64_t bytes = checked_mul(n_rows_, layout_.element_bytes, name_);
  if (bytes <= kSmall) return;
  uint64_t stored = 0;
  for (const ChunkPlace& chunk : chunks_) stored += std::min<uint64_t>(chunk.bytes, file_.bytes().size());
  stored = std::min<uint64_t>(stored, file_.bytes().size());
  if (bytes / (layout_.deflate ? kDeflateRatio : 1) > stored) {
    throw_corrupt(name_, ": expected rows that ", stored, " stored bytes can hold, got ", n_rows_);
  }
}

std::vector<std::byte> Dataset::read(std::span<const ByteRange> ranges) const {
  check_claim();
  const size_t stride = total_length(ranges);
  std::vector<std::byte> out(checked_mul(n_rows_, stride, name_));
  std::vector<std::byte> decoded;
  std::span<std::byte> left = out;
  for (uint64_t row = 0; row < n_rows_; row += layout_.n_rows) {
    const uint64_t count = std::min(n_rows_ - row, layout_.n_rows);
    const StoredChunk chunk = chunk_from(row);
    with_context([&](DataError& error) { error.shift_offset(0, cat(" of the chunk of ", name_, " from row ", row)); },
                 [&] { unpack_chunk(layout_, chunk, count, ranges, left.first(count * stride), decoded); });
    left = left.subspan(count * stride);
  }
  return out;
}

}  // namespace atompack::torch_cache
