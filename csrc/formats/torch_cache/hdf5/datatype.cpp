#include "formats/torch_cache/hdf5/datatype.h"

#include "base/checked_math.h"

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
    if (version < 1 || version > 5 || kind > static_cast<int>(TypeClass::array)) {
      throw UnsupportedFormatError(
          cat("datatype: expected a known class and version, got ", kind, " of version ", version),
          cursor_.offset() - 4);
    }
    Datatype found;
    found.type = static_cast<TypeClass>(kind);
    found.flags = head >> 8;
    found.size = cursor_.read<uint32_t>();
    read_rest(found, version, depth);
    return found;
  }

 private:
  void read_rest(Datatype& found, int version, int depth) {
    switch (found.type) {
      case TypeClass::integer:
      case TypeClass::bits:
        found.numbers = cursor_.take(4);
        return;
      case TypeClass::floating:
        found.numbers = cursor_.take(12);
        return;
      case TypeClass::time:
        cursor_.take(2);
        return;
      case TypeClass::opaque:
        cursor_.take(padded(found.flags & 0xFF));
        return;
      case TypeClass::compound:
        return read_members(found, version, depth);
      case TypeClass::enumeration:
        return read_enumeration(found.flags & 0xFFFF, version, depth);
      case TypeClass::vlen:
        found.base = std::make_unique<Datatype>(read(depth + 1));
        return;
      case TypeClass::array:
        return read_array(version, depth);
      case TypeClass::text:
      case TypeClass::reference:
        return;
    }
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
      const int rank = version == 1 ? cursor_.read<uint8_t>() : 0;
      if (version == 1) cursor_.take(27);
      member.type = read(depth + 1);
      if (rank > 0) member.type = array_of(member.type);
      found.members.push_back(std::move(member));
    }
  }

  // Its elements are not read; the size is that of the first one.
  static Datatype array_of(const Datatype& element) {
    Datatype found;
    found.type = TypeClass::array;
    found.size = element.size;
    return found;
  }

  void read_enumeration(size_t count, int version, int depth) {
    const Datatype base = read(depth + 1);
    for (size_t i = 0; i < count; ++i) read_name(cursor_, version < 3);
    cursor_.take(count * uint64_t{base.size});
  }

  void read_array(int version, int depth) {
    const uint64_t rank = cursor_.read<uint8_t>();
    cursor_.take(version < 3 ? 3 + rank * 8 : rank * 4);
    read(depth + 1);
  }

  MetadataCursor& cursor_;
};

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

}  // namespace atompack::torch_cache
