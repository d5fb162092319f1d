// Arrays inside a value: element type, layout, and copying their elements out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack {

// `text` is UTF-32 padded with NUL, `byte_string` is padded with NUL, `raw` is a struct with fields or opaque bytes;
// `object` arrays hold values, not bytes.
enum class ElementKind : uint8_t {
  boolean,
  signed_integer,
  unsigned_integer,
  floating,
  bfloat16,
  complex,
  text,
  byte_string,
  raw,
  datetime,
  timedelta,
  object,
};

// Element type of NumPy or torch.
struct ElementType {
  ElementKind kind = ElementKind::raw;
  bool big_endian = false;
  uint8_t depth = 0;    // levels of nested fields
  bool sealed = false;  // in use and therefore immutable
  uint32_t item_bytes = 0;
  uint32_t first_field = 0, n_fields = 0;
  std::string_view unit = {};  // of dates: "D", "ns"; a step is unit_count of them
  uint32_t unit_count = 1;
};

// Field of a `raw` type, at `offset` in the item.
struct ElementField {
  std::string_view name;
  uint32_t type = 0;
  uint32_t offset = 0;
};

// Types and fields by number.
struct TypeTable {
  std::span<const ElementType> types = {};
  std::span<const ElementField> fields = {};
};

// Memory order: C, Fortran and not C, or neither.
enum class Order : uint8_t { c, fortran, strided };

// View of an array in the bytes that hold it. `strides` count elements and are never negative; every element is inside
// `data`.
struct Array {
  uint32_t type_number = 0;
  ElementType type = {};
  TypeTable table = {};
  Order order = Order::c;
  bool requires_grad = false;
  std::span<const int64_t> shape = {}, strides = {};
  Bytes data = {};

  uint64_t size() const;
  // Size of the result of copy_out().
  uint64_t bytes() const { return size() * type.item_bytes; }
};

// Copies all elements in C order and native byte order; booleans become 0 or 1. `out` has array.bytes() bytes; object
// arrays are an InternalError.
void copy_out(const Array& array, std::span<std::byte> out);

// Returns nullopt if there is no tensor type for it.
std::optional<DType> dtype_of(const ElementType& type);

// NumPy's notation with the byte order: "<f4", "|b1", "<U3", "<M8[D]"; fields as "{a:<i4@0,b:<f8@4,12}".
std::string type_text(const TypeTable& table, const ElementType& type);

// NumPy's type code without the byte order: "f4".
std::string type_code(const ElementType& type);

}  // namespace atompack
