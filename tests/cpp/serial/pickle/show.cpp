#include "serial/pickle/show.h"

#include <bit>
#include <vector>

#include "base/error.h"

namespace atompack::test {
namespace {

std::string hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes)
    text += {kDigits[static_cast<int>(byte) >> 4], kDigits[static_cast<int>(byte) & 15]};
  return text;
}

std::string hex_of(const Array& array) {
  std::vector<std::byte> bytes(array.bytes());
  copy_out(array, bytes);
  return hex(bytes);
}

// Arrays are delivered in the machine's byte order, so their type is shown in it.
std::string native_type(const Array& array) {
  std::string text = type_text(array.table, array.type);
  for (char& c : text) c = c == '>' ? '<' : c;
  return text;
}

std::string shape_of(const Array& array) {
  std::string text;
  for (const int64_t dim : array.shape) text += cat(text.empty() ? "" : "x", dim);
  return text;
}

template <typename Item>
std::string joined(size_t n, const Item& item) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += cat(i ? ", " : "", item(i));
  return text;
}

std::string show_items(const Value& value) {
  return joined(value.size(), [&](size_t i) { return show(value.item(i)); });
}

std::string show_entries(const Value& value) {
  return joined(value.size(), [&](size_t i) { return cat(show(value.key(i)), ": ", show(value.value(i))); });
}

std::string show_array(const Value& value) {
  const Array array = value.array();
  const std::string head =
      cat('(', native_type(array), ' ', shape_of(array), ' ', "CFK"[static_cast<int>(array.order)]);
  if (array.type.kind == ElementKind::object) return cat("array", head, " [", show_items(value), "])");
  return cat("array", head, ' ', hex_of(array), ')');
}

std::string show_tensor(const Array& array) {
  return cat("tensor(", native_type(array), ' ', shape_of(array), array.requires_grad ? " grad " : " ", hex_of(array),
             ')');
}

}  // namespace

std::string show(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.boolean() ? "True" : "False";
    case Kind::integer:
      return cat(value.integer());
    case Kind::big_integer:
      return "int:" + hex(value.big_integer());
    case Kind::real: {
      const uint64_t bits = __builtin_bswap64(std::bit_cast<uint64_t>(value.real()));
      return "float:" + hex(std::as_bytes(std::span(&bits, 1)));
    }
    case Kind::text:
      return "str:" + hex(as_bytes(value.text()));
    case Kind::bytes:
      return "bytes:" + hex(value.bytes());
    case Kind::list:
      return cat('[', show_items(value), ']');
    case Kind::tuple:
      return cat('(', show_items(value), ')');
    case Kind::dict:
      return cat('{', show_entries(value), '}');
    case Kind::record:
      return cat(value.class_name(), '{', show_entries(value), '}');
    case Kind::array:
      return show_array(value);
    case Kind::scalar:
      return cat("scalar(", native_type(value.array()), ' ', hex_of(value.array()), ')');
    case Kind::tensor:
      return show_tensor(value.array());
    case Kind::dtype:
      return cat("dtype(", type_text(value.table(), value.dtype()), ')');
  }
  return "?";
}

std::string show_lines(const Value& value) {
  std::string text;
  for (size_t i = 0; i < value.size(); ++i) text += show(value.item(i)) + '\n';
  return text;
}

}  // namespace atompack::test
