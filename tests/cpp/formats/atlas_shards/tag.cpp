#include "formats/atlas_shards/tag.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"
#include "codec/checksums.h"

namespace atompack::test {
namespace {

constexpr size_t kMostCharacters = 200;
constexpr size_t kMostHexBytes = 32;

std::string hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes)
    text += {kDigits[static_cast<int>(byte) >> 4], kDigits[static_cast<int>(byte) & 15]};
  return text;
}

// UTF-8 with surrogates in three bytes.
std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<uint8_t>(text[at]);
    const int length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t point = length == 1 ? lead : lead & (0x7F >> length);
    for (int i = 1; i < length; ++i) point = point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
    points.push_back(point);
    at += length;
  }
  return points;
}

std::string escape(uint32_t unit) {
  const std::byte bytes[] = {std::byte(unit >> 8), std::byte(unit & 0xFF)};
  return "\\u" + hex(bytes);
}

std::string json_character(uint32_t point) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  if (point < 0x80) {
    if (const size_t at = kShort.find(static_cast<char>(point)); at != kShort.npos) return {'\\', kLetters[at]};
    if (point >= 0x20) return {static_cast<char>(point)};
  }
  if (point < 0x10000) return escape(point);
  return escape(0xD800 + ((point - 0x10000) >> 10)) + escape(0xDC00 + ((point - 0x10000) & 0x3FF));
}

std::string in_quotes(std::string_view text) {
  std::string json = "\"";
  for (const uint32_t point : code_points(text)) json += json_character(point);
  return json + '"';
}

std::string blob(Bytes bytes) {
  const std::string shown = bytes.size() <= kMostHexBytes ? in_quotes(hex(bytes)) : "null";
  return cat(bytes.size(), ",\"", codec::sha256_hex(bytes), "\",", shown);
}

// Divides by ten in place; returns the rest.
int divide_by_ten(std::vector<uint8_t>& digits) {
  int rest = 0;
  for (size_t i = digits.size(); i-- > 0;) {
    const int here = rest * 256 + digits[i];
    digits[i] = static_cast<uint8_t>(here / 10);
    rest = here % 10;
  }
  return rest;
}

// Of two's complement, little-endian.
std::string decimal(Bytes number) {
  std::vector<uint8_t> digits;
  for (const std::byte byte : number) digits.push_back(static_cast<uint8_t>(byte));
  const bool negative = !digits.empty() && digits.back() >= 0x80;
  for (int carry = 1; uint8_t& digit : digits) {
    if (!negative) break;
    const int flipped = (digit ^ 0xFF) + carry;
    digit = static_cast<uint8_t>(flipped);
    carry = flipped >> 8;
  }
  std::string text;
  while (std::ranges::any_of(digits, [](uint8_t digit) { return digit != 0; })) {
    text += static_cast<char>('0' + divide_by_ten(digits));
  }
  if (negative) text += '-';
  return {text.rbegin(), text.rend()};
}

template <typename Item>
std::string list_of(size_t n, const Item& item) {
  std::string json = "[";
  for (size_t i = 0; i < n; ++i) json += cat(i ? "," : "", item(i));
  return json + ']';
}

std::string shape_of(const Array& array) {
  return list_of(array.shape.size(), [&](size_t i) { return array.shape[i]; });
}

// Fields one after the other; gaps as fields without a name.
std::string type_of(const TypeTable& table, const ElementType& type, bool is_field = false) {
  if (type.n_fields == 0) {
    std::string text = type_text(table, type);
    if (!is_field && text[0] == '>') text[0] = '<';
    return in_quotes(text);
  }
  std::string json;
  uint32_t end = 0;
  const auto pad_to = [&](uint32_t begin) {
    if (begin > end) json += cat(",[\"\",\"|V", begin - end, "\"]");
  };
  for (const ElementField& field : table.fields.subspan(type.first_field, type.n_fields)) {
    const ElementType& inner = table.types[field.type];
    pad_to(field.offset);
    json += cat(",[", in_quotes(field.name), ',', type_of(table, inner, true), ']');
    end = field.offset + inner.item_bytes;
  }
  pad_to(type.item_bytes);
  return cat('[', json.substr(1), ']');
}

std::string order_of(const Array& array) { return cat('"', "CFK"[static_cast<int>(array.order)], '"'); }

// Where the object is, in C order, that is number `i` in Fortran order.
size_t c_place(const Array& array, size_t i) {
  size_t place = 0;
  std::vector<size_t> index;
  for (const int64_t extent : array.shape) {
    index.push_back(i % static_cast<size_t>(extent));
    i /= static_cast<size_t>(extent);
  }
  for (size_t axis = 0; axis < index.size(); ++axis) {
    place = place * static_cast<size_t>(array.shape[axis]) + index[axis];
  }
  return place;
}

std::string tag_of_array(const Value& value) {
  const Array array = value.array();
  if (array.type.kind == ElementKind::object) {
    const std::string items = list_of(value.size(), [&](size_t i) {
      return tag_of(value.item(array.order == Order::fortran ? c_place(array, i) : i));
    });
    return cat("[\"objarray\",", shape_of(array), ',', order_of(array), ',', items, ']');
  }
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
  const std::string type = type_of(array.table, array.type);
  if (value.kind() == Kind::scalar) return cat("[\"npscalar\",", type, ',', in_quotes(hex(bytes)), ']');
  return cat("[\"ndarray\",", type, ',', shape_of(array), ',', order_of(array), ',', blob(bytes), ']');
}

std::string torch_type(const ElementType& type) {
  const auto bits = [&] { return 8 * type.item_bytes; };
  switch (type.kind) {
    case ElementKind::boolean:
      return "bool";
    case ElementKind::bfloat16:
      return "bfloat16";
    case ElementKind::signed_integer:
      return cat("int", bits());
    case ElementKind::unsigned_integer:
      return cat("uint", bits());
    case ElementKind::complex:
      return cat("complex", bits());
    default:
      return cat("float", bits());
  }
}

std::string tag_of_tensor(const Array& array) {
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
  return cat("[\"tensor\",\"", torch_type(array.type), "\",", shape_of(array), ',',
             array.requires_grad ? "true" : "false", ',', blob(bytes), ']');
}

std::string tag_of_text(std::string_view text) {
  const size_t n = code_points(text).size();
  if (n <= kMostCharacters) return cat("[\"str\",", in_quotes(text), ']');
  return cat("[\"strsha\",", n, ",\"", codec::sha256_hex(as_bytes(text)), "\"]");
}

std::string tag_of_items(const Value& value, std::string_view name) {
  return cat("[\"", name, "\",", list_of(value.size(), [&](size_t i) { return tag_of(value.item(i)); }), ']');
}

std::string tag_of_dict(const Value& value) {
  return cat(
      "[\"dict\",",
      list_of(value.size(), [&](size_t i) { return cat('[', tag_of(value.key(i)), ',', tag_of(value.value(i)), ']'); }),
      ']');
}

std::string tag_of_real(double real) {
  const uint64_t bits = __builtin_bswap64(std::bit_cast<uint64_t>(real));
  return cat("[\"float\",\"", hex(std::as_bytes(std::span(&bits, 1))), "\"]");
}

}  // namespace

std::string tag_of(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "[\"none\"]";
    case Kind::boolean:
      return value.boolean() ? "[\"bool\",true]" : "[\"bool\",false]";
    case Kind::integer:
      return cat("[\"int\",\"", value.integer(), "\"]");
    case Kind::big_integer:
      return cat("[\"int\",\"", decimal(value.big_integer()), "\"]");
    case Kind::real:
      return tag_of_real(value.real());
    case Kind::text:
      return tag_of_text(value.text());
    case Kind::bytes:
      return cat("[\"bytes\",", blob(value.bytes()), ']');
    case Kind::list:
      return tag_of_items(value, "list");
    case Kind::tuple:
      return tag_of_items(value, "tuple");
    case Kind::dict:
      return tag_of_dict(value);
    case Kind::array:
    case Kind::scalar:
      return tag_of_array(value);
    case Kind::tensor:
      return tag_of_tensor(value.array());
    case Kind::dtype:
      return cat("[\"dtype\",", type_of(value.table(), value.dtype()), ']');
    case Kind::record:
      break;
  }
  throw InternalError("a value without a tag");
}

}  // namespace atompack::test
