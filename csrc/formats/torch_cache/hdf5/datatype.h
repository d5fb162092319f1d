// Datatypes and dataspaces: FORMAT.md#datatypes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/torch_cache/hdf5/metadata_cursor.h"

namespace atompack::torch_cache {

enum class TypeClass : uint8_t {
  integer,
  floating,
  time,
  text,
  bits,
  opaque,
  compound,
  reference,
  enumeration,
  vlen,
  array
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

}  // namespace atompack::torch_cache
