#include "formats/torch_cache/hdf5/attributes.h"

#include <algorithm>
#include <limits>
#include <map>

#include "formats/torch_cache/hdf5/btree.h"
#include "formats/torch_cache/hdf5/dataset.h"
#include "formats/torch_cache/hdf5/fractal_heap.h"
#include "formats/torch_cache/hdf5/nodes.h"
#include "formats/torch_cache/rows/heap.h"

namespace atompack::torch_cache {
namespace {

// Attributes of this format are short; longer ones are refused.
constexpr size_t kMaxTextBytes = 16 << 20;

std::string_view name_of_class(TypeClass type) {
  switch (type) {
    case TypeClass::integer:
      return "an integer";
    case TypeClass::floating:
      return "a number";
    case TypeClass::text:
      return "text";
    case TypeClass::bits:
      return "a bit field";
    case TypeClass::enumeration:
      return "an enumeration";
    default:
      return "a value of another type";
  }
}

uint64_t load_number(Bytes bytes, bool is_little_endian) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t place = is_little_endian ? i : bytes.size() - 1 - i;
    value |= static_cast<uint64_t>(bytes[place]) << (8 * i);
  }
  return value;
}

// An attribute message, before its value is read.
struct StoredAttribute {
  MetadataCursor type, space, value;
  bool is_type_shared;
};

// Name and parts of a message: FORMAT.md#attributes.
std::pair<std::string, StoredAttribute> split_attribute(MetadataCursor message) {
  constexpr int kSharedType = 1, kSharedSpace = 2;
  const int version = message.read<uint8_t>();
  const int flags = message.read<uint8_t>();
  if (version < 1 || version > 3) {
    throw UnsupportedFormatError(cat("attribute: expected a version up to 3, got ", version), message.offset() - 2);
  }
  if (version > 1 && (flags & kSharedSpace) != 0) {
    throw UnsupportedFormatError("attribute: expected a dataspace in its place, got a shared one", message.offset());
  }
  const uint64_t name_bytes = message.read<uint16_t>();
  const uint64_t type_bytes = message.read<uint16_t>();
  const uint64_t space_bytes = message.read<uint16_t>();
  if (version == 3) message.take(1);
  const auto part = [&](uint64_t bytes, std::string_view what) {
    const uint64_t at = message.offset();
    const Bytes padded = message.take(version == 1 ? (bytes + 7) / 8 * 8 : bytes);
    return MetadataCursor(padded.first(bytes), at, what);
  };
  const std::string_view name = as_text(part(name_bytes, "attribute").rest());
  const MetadataCursor type = part(type_bytes, "datatype");
  const MetadataCursor space = part(space_bytes, "dataspace");
  return {std::string(name.substr(0, name.find('\0'))),
          {type, space, message, version > 1 && (flags & kSharedType) != 0}};
}

class AttributeReader {
 public:
  AttributeReader(const Hdf5File& file, const std::string& name, const StoredAttribute& stored)
      : file_(file), name_("attribute '" + name + "'"), type_(type_of(file, stored)) {
    n_values_ = read_dataspace(stored.space).n_values();
    if (n_values_ > 1) throw_corrupt(name_, ": expected one value, got ", n_values_);
    if (n_values_ == 1) value_ = MetadataCursor(stored.value).take(type_.size);
  }

  AttributeValue read(AttributeKind kind) const {
    switch (kind) {
      case AttributeKind::flag:
        return flag();
      case AttributeKind::integer:
        return integer();
      case AttributeKind::number:
        return number();
      case AttributeKind::text:
        return text();
    }
    throw InternalError("an attribute of no kind");
  }

 private:
  static Datatype type_of(const Hdf5File& file, const StoredAttribute& stored) {
    MetadataCursor cursor = stored.is_type_shared ? shared_datatype(file, stored.type).cursor("datatype") : stored.type;
    return read_datatype(cursor);
  }

  [[noreturn]] void fail(std::string_view expected) const {
    const bool is_text = type_.is_variable_text();
    throw CorruptFileError(
        cat(name_, ": expected ", expected, ", got ", name_of_class(is_text ? TypeClass::text : type_.type)));
  }
  Bytes value() const {
    if (n_values_ == 0) throw_corrupt(name_, ": expected a value, got none");
    return value_;
  }

  // Some programs store bool as an enumeration, which the original always reads as false. Both its value and false
  // would be wrong for someone, so it is refused.
  bool flag() const {
    if (type_.type == TypeClass::enumeration) {
      throw UnsupportedFormatError(cat(name_, ": expected a bit field or an integer, got an enumeration"));
    }
    if (type_.type == TypeClass::integer) return integer() != 0;
    if (type_.type != TypeClass::bits || type_.size != 1) fail("a bit field of 8 bits or an integer");
    return value()[0] != std::byte{0};
  }

  int64_t integer() const {
    if (type_.type != TypeClass::integer) fail("an integer");
    if (!type_.is_plain_integer()) {
      throw UnsupportedFormatError(cat(name_, ": expected an integer of 1, 2, 4 or 8 bytes, got one of ", type_.size));
    }
    const uint64_t bits = load_number(value(), type_.is_little_endian());
    const auto unused = static_cast<int>(64 - 8 * type_.size);
    if (type_.is_signed()) return static_cast<int64_t>(bits << unused) >> unused;
    if (bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      throw_corrupt(name_, ": expected an int64, got ", bits);
    }
    return static_cast<int64_t>(bits);
  }

  double number() const {
    if (type_.type == TypeClass::integer) return static_cast<double>(integer());
    if (type_.type != TypeClass::floating) fail("a number");
    const uint64_t bits = value().size() > 8 ? 0 : load_number(value(), type_.is_little_endian());
    if (type_.is_ieee(8)) return std::bit_cast<double>(bits);
    if (type_.is_ieee(4)) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    throw UnsupportedFormatError(cat(name_, ": expected float32 or float64, got a float of ", type_.size, " bytes"));
  }

  std::string text() const {
    if (type_.type != TypeClass::text && !type_.is_variable_text()) fail("text");
    if (n_values_ == 0) return {};  // an empty string is stored like this
    return type_.is_variable_text() ? variable_text() : fixed_text();
  }

  std::string fixed_text() const {
    if (type_.size == 0 || type_.size > kMaxTextBytes) {
      throw_corrupt(name_, ": expected at most ", kMaxTextBytes, " bytes, got ", type_.size);
    }
    constexpr uint32_t kUpToNull = 0, kSpaces = 2;
    const uint32_t padding = type_.flags & 15;
    std::string text(as_text(value_));
    if (padding == kUpToNull) text.resize(std::min(text.find('\0'), text.size()));
    const char filler = padding == kSpaces ? ' ' : '\0';
    text.resize(text.find_last_not_of(filler) + 1);
    return text;
  }

  // In the global heap, like rows.
  std::string variable_text() const {
    if (type_.size != VlenColumn::kReferenceBytes) {
      throw_corrupt(name_, ": expected references of 16 bytes, got ", type_.size);
    }
    const uint64_t length = load_le<uint32_t>(value_.data());
    if (length == 0) return {};
    if (length > kMaxTextBytes) throw_corrupt(name_, ": expected at most ", kMaxTextBytes, " bytes, got ", length);
    const io::MemoryBytes whole(file_.bytes());
    const GlobalHeap heap(whole, file_.base());
    const uint64_t at = heap.find(load_le<uint64_t>(value_.data() + 4), load_le<uint32_t>(value_.data() + 12), length);
    const std::string_view text = as_text(file_.bytes().subspan(at, length));
    return std::string(text.substr(0, text.find('\0')));
  }

  const Hdf5File& file_;
  std::string name_;
  Datatype type_;
  uint64_t n_values_ = 0;
  Bytes value_;
};

// All attributes of an object, which lie in its header or in a heap.
class AttributeList {
 public:
  explicit AttributeList(const Node& node) {
    for (const Message& message : node.header().messages()) {
      if (message.type == MessageType::attribute) stored_.insert(split_attribute(message.cursor("attribute")));
    }
    const Message* const info = node.header().find(MessageType::attribute_info);
    if (info != nullptr) read_heap(node.file(), info->cursor("attribute info"));
  }

  const StoredAttribute* find(const std::string& name) const {
    const auto found = stored_.find(name);
    return found == stored_.end() ? nullptr : &found->second;
  }

 private:
  void read_heap(const Hdf5File& file, MetadataCursor info) {
    info.version(0);
    info.take((info.read<uint8_t>() & 1) != 0 ? 2 : 0);
    const auto heap_address = info.read<uint64_t>();
    const auto names = info.read<uint64_t>();
    if (heap_address == Hdf5File::kNowhere || names == Hdf5File::kNowhere) return;
    const FractalHeap heap(file, heap_address);
    constexpr uint64_t kRest = 1 + 4 + 4;  // flags, order and hash
    for_each_record(file, names, RecordKind::attribute_by_name, heap.id_bytes() + kRest, [&](MetadataCursor record) {
      const uint64_t at = record.offset();
      const MetadataCursor id(record.take(heap.id_bytes()), at, "fractal heap");
      constexpr int kShared = 2;
      if ((record.read<uint8_t>() & kShared) != 0) {
        throw UnsupportedFormatError("attribute: expected one in the heap of its object, got a shared one", at);
      }
      stored_.insert(split_attribute(heap.object(id)));
    });
  }

  std::map<std::string, StoredAttribute> stored_;
};

}  // namespace

Attributes read_attributes(const Node& node, std::span<const AttributeName> names) {
  const AttributeList list(node);
  Attributes found;
  for (const auto& [name, kind] : names) {
    const std::string text(name);
    const StoredAttribute* const stored = list.find(text);
    if (stored != nullptr) found.push_back({text, AttributeReader(node.file(), text, *stored).read(kind)});
  }
  return found;
}

}  // namespace atompack::torch_cache
