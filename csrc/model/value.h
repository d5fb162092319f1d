// Values of schemaless formats: numbers, strings, containers and arrays in a tree. Readers fill a ValueTree; all other
// code accesses it through Value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"

namespace atompack {

// Arrays inside a value: element type, layout, and copying their elements out.

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

// Copies all elements in C order and native byte order; booleans become 0 or 1. `out` has array.bytes() bytes. Throws
// InternalError for arrays of objects.
void copy_out(const Array& array, std::span<std::byte> out);

// Returns nullopt if there is no tensor type for it.
std::optional<DType> dtype_of(const ElementType& type);
ElementType element_of(DType dtype);

// The kind of a letter in NumPy's notation, "f" for floating; nullopt: none of these.
std::optional<ElementKind> kind_of(char letter);

// True if no two of these fields share bytes.
bool are_apart(const TypeTable& table, std::vector<ElementField> fields);

// NumPy's notation with the byte order: "<f4", "|b1", "<U3", "<M8[D]"; fields as "{a:<i4@0,b:<f8@4,12}".
std::string type_text(const TypeTable& table, const ElementType& type);

// NumPy's type code without the byte order: "f4".
std::string type_code(const ElementType& type);

// Readers may use numbers from 128 on for cells that are not values yet.
enum class Kind : uint8_t {
  none,
  boolean,
  integer,
  big_integer,  // more than 64 bits
  real,
  text,
  bytes,
  list,
  tuple,
  dict,
  record,  // object of a class that the reader allows: its class and its attributes
  array,   // of NumPy
  scalar,  // of NumPy: an array without dimensions
  tensor,  // of torch
  dtype,   // of NumPy
};

std::string_view name_of(Kind kind);

// One value: stored inline, as a view of its bytes, or as a node number. Trees consist of millions of these.
struct Cell {
  uint64_t size : 56;  // of `data`
  uint64_t code : 8;
  union {
    int64_t integer;
    double real;
    const std::byte* data;
    uint64_t node;
  };

  Kind kind() const { return static_cast<Kind>(code); }
  Bytes bytes() const { return {data, static_cast<size_t>(size)}; }
  std::string_view text() const { return as_text(bytes()); }

  static Cell make(Kind kind, uint64_t node = 0) {
    Cell cell;
    cell.size = 0;
    cell.code = static_cast<uint8_t>(kind);
    cell.node = node;
    return cell;
  }
  static Cell of_integer(int64_t value) { return make(Kind::integer, static_cast<uint64_t>(value)); }
  static Cell of_boolean(bool value) { return make(Kind::boolean, value ? 1 : 0); }
  static Cell of_real(double value) {
    Cell cell = make(Kind::real);
    cell.real = value;
    return cell;
  }
  static Cell view(Kind kind, Bytes bytes) {
    Cell cell = make(kind);
    cell.size = bytes.size();
    cell.data = bytes.data();
    return cell;
  }
};
static_assert(sizeof(Cell) == 16);

// A container: cells [first, first + size) of the tree; in dicts and records keys and values alternate.
struct SequenceNode {
  Kind kind;
  uint32_t first = 0, size = 0, capacity = 0;
  uint32_t class_number = 0;  // of records
};

// An array; for an object array, the cells of its objects, always in C order (NumPy stores them so, even if the array
// is in Fortran order).
struct ArrayNode {
  uint32_t type = 0;
  uint32_t first_extent = 0;  // shape, then strides
  uint8_t rank = 0;
  Order order = Order::c;
  bool requires_grad = false;
  bool filled = false;
  Bytes data = {};
  uint32_t first_object = 0, n_objects = 0;
};

// All nodes of one tree. Clearing keeps the memory. Views point into bytes that the reader was given or keeps.
struct ValueTree {
  std::vector<Cell> cells;
  std::vector<SequenceNode> sequences;
  std::vector<ArrayNode> arrays;
  std::vector<int64_t> extents;
  std::vector<ElementType> types;
  std::vector<ElementField> fields;
  std::vector<std::string> class_names;

  void clear();
  uint64_t bytes() const;  // memory in use
  uint32_t add_sequence(Kind kind, std::span<const Cell> items);
  void append(uint32_t sequence, std::span<const Cell> items);
  std::span<const Cell> items(const Cell& container) const;
  TypeTable table() const { return {types, fields}; }
  Array array(const ArrayNode& node) const;
};

// Read access to a value; valid as long as its tree and the underlying bytes. Access as a different kind is an
// InternalError: callers check kind() first.
class Value {
 public:
  Value(const ValueTree& tree, Cell cell) : tree_(&tree), cell_(cell) {}

  Kind kind() const { return cell_.kind(); }
  bool boolean() const { return expect(Kind::boolean).node != 0; }
  int64_t integer() const { return expect(Kind::integer).integer; }
  Bytes big_integer() const { return expect(Kind::big_integer).bytes(); }  // two's complement, little-endian
  double real() const { return expect(Kind::real).real; }
  std::string_view text() const { return expect(Kind::text).text(); }  // UTF-8, lone surrogates in three bytes
  Bytes bytes() const { return expect(Kind::bytes).bytes(); }

  // Items of a list or tuple, objects of an object array in C order, entries of a dict or record.
  size_t size() const;
  Value item(size_t i) const;
  Value key(size_t i) const;
  Value value(size_t i) const;
  std::optional<Value> find(std::string_view key) const;
  std::string_view class_name() const;  // for records: "module.name"

  bool has_array() const { return kind() >= Kind::array && kind() <= Kind::tensor; }
  Array array() const;               // for arrays, scalars, tensors
  const ElementType& dtype() const;  // for dtypes
  TypeTable table() const { return tree_->table(); }
  const Cell& cell() const { return cell_; }

 private:
  const Cell& expect(Kind kind) const;
  std::span<const Cell> cells() const;

  const ValueTree* tree_;
  Cell cell_;
};

}  // namespace atompack
