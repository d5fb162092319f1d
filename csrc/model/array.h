// Arrays inside a value: their element type, their layout, and the one way to read them out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack {

// `text` is UTF-32 padded with NUL, `byte_string` is padded with NUL, `raw` is a record of fields or bytes without a
// meaning; `object` arrays hold values, not bytes.
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

// NumPy's and torch's element types alike.
struct ElementType {
  ElementKind kind = ElementKind::raw;
  bool big_endian = false;
  uint8_t depth = 0;    // levels of fields below
  bool sealed = false;  // in use, so that it must not change any more
  uint32_t item_bytes = 0;
  uint32_t first_field = 0, n_fields = 0;
  std::string_view unit = {};  // of dates: "D", "ns"; unit_count of them make one step
  uint32_t unit_count = 1;
};

// A field of a `raw` type, at `offset` in the item.
struct ElementField {
  std::string_view name;
  uint32_t type = 0;
  uint32_t offset = 0;
};

// The types and fields that numbers refer to.
struct TypeTable {
  std::span<const ElementType> types = {};
  std::span<const ElementField> fields = {};
};

// How the elements lie: in C order, in Fortran order and not in C order, or in neither.
enum class Order : uint8_t { c, fortran, strided };

// An array as it lies in the bytes that hold it. `strides` count elements and are never negative; every element lies
// inside `data`.
struct Array {
  uint32_t type_number = 0;
  ElementType type = {};
  TypeTable table = {};
  Order order = Order::c;
  bool requires_grad = false;
  std::span<const int64_t> shape = {}, strides = {};
  Bytes data = {};

  uint64_t size() const;
  // What copy_out() writes.
  uint64_t bytes() const { return size() * type.item_bytes; }
};

// All elements in C order and this machine's byte order; booleans become 0 or 1. `out` has array.bytes() bytes; of
// object arrays there is nothing to copy (InternalError).
void copy_out(const Array& array, std::span<std::byte> out);

// Nothing where tensors of this library have no such type.
std::optional<DType> dtype_of(const ElementType& type);

// As NumPy writes it, with the byte order: "<f4", "|b1", "<U3", "<M8[D]"; fields as "{a:<i4@0,b:<f8@4,12}".
std::string type_text(const TypeTable& table, const ElementType& type);

// NumPy's letter and number without the byte order: "f4".
std::string type_code(const ElementType& type);

}  // namespace atompack
