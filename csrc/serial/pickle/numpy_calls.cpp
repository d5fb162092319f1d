#include "serial/pickle/numpy_calls.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ascii.h"
#include "base/checked_math.h"
#include "base/excerpt.h"
#include "serial/pickle/calls.h"

namespace atompack::pickle {
namespace {

// Checked access to the arguments of calls.

bool is_integer(const Cell& cell, int64_t value) { return cell.kind() == Kind::integer && cell.integer == value; }

bool is_none(const Cell& cell) { return cell.kind() == Kind::none; }

std::string_view text_of(const Cell& cell, std::string_view what) {
  expect_kind(cell, Kind::text, what);
  return cell.text();
}

// NumPy 1.16 and older wrote 0 and 1.
bool flag_of(const Cell& cell, std::string_view what) {
  const bool is_number = is_integer(cell, 0) || is_integer(cell, 1);
  if (!is_number) expect_kind(cell, Kind::boolean, what);
  return cell.node != 0;
}

uint32_t size_of(const Cell& cell, std::string_view what) {
  expect_kind(cell, Kind::integer, what);
  if (cell.integer < 0 || cell.integer > INT32_MAX) corrupt(what, ": expected a size, got ", cell.integer);
  return static_cast<uint32_t>(cell.integer);
}

constexpr size_t kMaxFields = 1024;
constexpr int kMaxFieldDepth = 8;
constexpr int64_t kObjectFlags = 63;  // flags of object arrays; with other flags NumPy would take bytes for pointers

bool is_size_of(ElementKind kind, uint32_t size) {
  switch (kind) {
    case ElementKind::boolean:
      return size == 1;
    case ElementKind::signed_integer:
    case ElementKind::unsigned_integer:
      return size == 1 || size == 2 || size == 4 || size == 8;
    case ElementKind::floating:
      return size == 2 || size == 4 || size == 8 || size == 16;
    case ElementKind::complex:
      return size == 8 || size == 16 || size == 32;
    case ElementKind::text:
      return size <= INT32_MAX / 4;
    case ElementKind::byte_string:
    case ElementKind::raw:
      return size <= INT32_MAX;
    default:
      return size == 8;
  }
}

ElementType parse_code(std::string_view code) {
  const std::optional<ElementKind> kind = kind_of(code.empty() ? '\0' : code[0]);
  if (!kind) unsafe("dtype: expected an element type of plain data, got ", excerpt(code));
  const auto size = parse_number<uint32_t>(code.substr(1));
  if (!size || !is_size_of(*kind, *size)) corrupt("dtype: expected an element type, got ", excerpt(code));
  return {.kind = *kind, .item_bytes = *kind == ElementKind::text ? 4 * *size : *size};
}

struct DtypeState {
  std::string_view order;
  Cell names, fields, item_bytes, flags;
};

DtypeState read_dtype_state(State& state, const Cell& build_state) {
  expect_kind(build_state, Kind::tuple, "state of a dtype");
  const std::span<const Cell> entries = state.items(build_state);
  expect_count(entries, 8, 9, "state of a dtype");
  const int64_t version = entries.size() == 8 ? 3 : 4;
  if (!is_integer(entries[0], version)) corrupt("state of a dtype: expected version ", version);
  if (!is_none(entries[2])) unsafe("dtype: expected no subarray, got one");
  const std::string_view order = text_of(entries[1], "byte order");
  if (order != "<" && order != ">" && order != "|") corrupt("byte order: expected <, > or |, got ", excerpt(order));
  expect_kind(entries[6], Kind::integer, "alignment of a dtype");
  expect_kind(entries[7], Kind::integer, "flags of a dtype");
  return {order, entries[3], entries[4], entries[5], entries[7]};
}

// Index of the field of this name in a dict of fields; a good guess saves the search.
size_t find_field(std::span<const Cell> fields, std::string_view name, size_t guess) {
  const auto is_there = [&](size_t i) { return fields[i].kind() == Kind::text && fields[i].text() == name; };
  if (2 * guess < fields.size() && is_there(2 * guess)) return 2 * guess;
  for (size_t i = fields.size(); i >= 2; i -= 2) {
    if (is_there(i - 2)) return i - 2;
  }
  corrupt("fields of a dtype: expected ", excerpt(name), ", got no such field");
}

ElementField read_field(State& state, const Cell& name, const Cell& described, uint32_t item_bytes) {
  expect_kind(described, Kind::tuple, "field of a dtype");
  const std::span<const Cell> pair = state.items(described);
  expect_count(pair, 2, 2, "field of a dtype");
  const ElementField field{name.text(), type_of(state, pair[0], "field of a dtype"),
                           size_of(pair[1], "offset of a field")};
  const ElementType& type = state.tree.types[field.type];
  if (type.kind == ElementKind::object) unsafe("field of a dtype: expected plain data, got object");
  if (type.item_bytes == 0) unsafe("field of a dtype: expected some bytes, got none");
  if (field.offset > item_bytes || type.item_bytes > item_bytes - field.offset) {
    corrupt("field of a dtype: expected bytes inside the ", item_bytes, " of an item, got ", type.item_bytes, " at ",
            field.offset);
  }
  return field;
}

// Overlapping fields would be byte-swapped twice, and would let few bytes stand for many.
void refuse_overlaps(const State& state, std::vector<ElementField> fields) {
  std::ranges::sort(fields, {}, &ElementField::offset);
  for (size_t i = 1; i < fields.size(); ++i) {
    const ElementField& before = fields[i - 1];
    if (fields[i].offset - before.offset < state.tree.types[before.type].item_bytes) {
      unsafe("fields of a dtype: expected no overlap, got ", excerpt(before.name), " and ", excerpt(fields[i].name),
             " in one");
    }
  }
}

void read_fields(State& state, ElementType& type, const DtypeState& described) {
  expect_kind(described.names, Kind::tuple, "names of fields");
  expect_kind(described.fields, Kind::dict, "fields of a dtype");
  const std::span<const Cell> names = state.items(described.names), entries = state.items(described.fields);
  if (names.size() > kMaxFields) unsafe("dtype: expected at most ", kMaxFields, " fields, got ", names.size());
  std::vector<ElementField> fields;
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t at = find_field(entries, text_of(names[i], "name of a field"), i);
    fields.push_back(read_field(state, names[i], entries[at + 1], type.item_bytes));
    const int depth = state.tree.types[fields.back().type].depth + 1;
    if (depth > kMaxFieldDepth) unsafe("dtype: expected fields of at most ", kMaxFieldDepth, " levels, got more");
    type.depth = std::max(type.depth, static_cast<uint8_t>(depth));
  }
  refuse_overlaps(state, fields);
  type.first_field = static_cast<uint32_t>(state.tree.fields.size());
  type.n_fields = static_cast<uint32_t>(fields.size());
  state.tree.fields.insert(state.tree.fields.end(), fields.begin(), fields.end());
}

// Ninth entry of the state: (None, (unit, count, 1, 1)); NumPy 1 wrote {} for None.
void read_unit(State& state, ElementType& type, const Cell& metadata) {
  expect_kind(metadata, Kind::tuple, "unit of a date");
  const std::span<const Cell> pair = state.items(metadata);
  expect_count(pair, 2, 2, "unit of a date");
  const bool is_empty = is_none(pair[0]) || (pair[0].kind() == Kind::dict && state.items(pair[0]).empty());
  if (!is_empty) unsafe("dtype: expected no metadata, got ", describe(pair[0]));
  expect_kind(pair[1], Kind::tuple, "unit of a date");
  const std::span<const Cell> unit = state.items(pair[1]);
  expect_count(unit, 4, 4, "unit of a date");
  expect_kind(unit[0], Kind::bytes, "unit of a date");
  type.unit = as_text(unit[0].bytes());
  type.unit_count = size_of(unit[1], "steps of a date");
  if (type.unit.size() > 8) corrupt("unit of a date: expected a NumPy unit, got ", excerpt(type.unit));
  if (!is_integer(unit[2], 1) || !is_integer(unit[3], 1)) unsafe("dtype: expected whole units of a date");
}

}  // namespace

uint32_t type_of(State& state, const Cell& cell, std::string_view what) {
  expect_kind(cell, Kind::dtype, what);
  state.tree.types[cell.node].sealed = true;
  return static_cast<uint32_t>(cell.node);
}

ElementType parse_type_text(std::string_view text) {
  const bool has_order = !text.empty() && std::string_view("<>|").find(text[0]) != std::string_view::npos;
  const std::string_view code = has_order ? text.substr(1) : text;
  ElementType type = parse_code(code == "?" ? "b1" : code);
  if (type.kind == ElementKind::object) unsafe("numpy.ndarray: expected an element type of plain data, got object");
  type.big_endian = has_order && text[0] == '>';
  return type;
}

Cell numpy_dtype(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 3, 3, "numpy.dtype");
  const ElementType type = parse_code(text_of(arguments[0], "numpy.dtype"));
  if (flag_of(arguments[1], "numpy.dtype") || !flag_of(arguments[2], "numpy.dtype")) {
    corrupt("numpy.dtype: expected False and True, got something else");
  }
  state.tree.types.push_back(type);
  return Cell::make(Kind::dtype, state.tree.types.size() - 1);
}

void build_numpy_dtype(State& state, const Cell& dtype, const Cell& build_state) {
  if (state.tree.types[dtype.node].sealed) corrupt("BUILD: expected a new dtype, got one in use");
  const DtypeState described = read_dtype_state(state, build_state);
  ElementType type = state.tree.types[dtype.node];
  type.big_endian = described.order == ">";
  if (type.kind == ElementKind::object && !is_integer(described.flags, kObjectFlags)) {
    unsafe("dtype: expected the flags ", kObjectFlags, " of objects, got ", described.flags.integer);
  }
  const bool has_size = !is_integer(described.item_bytes, -1);
  if (has_size && size_of(described.item_bytes, "size of a dtype") != type.item_bytes) {
    corrupt("size of a dtype: expected ", type.item_bytes, ", got ", described.item_bytes.integer);
  }
  if (!is_none(described.names)) {
    if (type.kind != ElementKind::raw) corrupt("dtype: expected fields in type V only");
    read_fields(state, type, described);
  }
  const std::span<const Cell> entries = state.items(build_state);
  const bool is_date = type.kind == ElementKind::datetime || type.kind == ElementKind::timedelta;
  if (entries.size() == 9 && !is_date) unsafe("dtype: expected no metadata, got some");
  if (entries.size() == 9) read_unit(state, type, entries[8]);
  if (state.tree.types[dtype.node].sealed) corrupt("dtype: expected other types in its fields, got itself");
  type.sealed = true;
  state.tree.types[dtype.node] = type;
}

namespace {

constexpr size_t kMaxRank = 64;  // NumPy's limit

Bytes buffer_of(const Cell& cell, std::string_view what) {
  if (cell.kind() != kByteArray) expect_kind(cell, Kind::bytes, what);
  return cell.bytes();
}

// Appends the strides of a contiguous array whose elements have been counted.
void add_strides(State& state, uint32_t first_extent, uint8_t rank, bool fortran) {
  std::vector<int64_t>& extents = state.tree.extents;
  extents.resize(extents.size() + rank);
  int64_t stride = 1;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = fortran ? i : rank - 1 - i;
    extents[first_extent + rank + axis] = stride;
    stride *= std::max<int64_t>(extents[first_extent + axis], 1);
  }
}

struct Source {
  const Cell& shape;
  const Cell& type;
  const Cell& data;
  bool fortran;
};

void fill_objects(State& state, ArrayNode& array, const Cell& list, uint64_t size) {
  expect_kind(list, Kind::list, "object array");
  const SequenceNode& node = state.tree.sequences[list.node];
  if (node.size != size) corrupt("object array: expected ", size, " values, got ", node.size);
  // The array keeps these cells even if the list grows later.
  array.first_object = node.first;
  array.n_objects = node.size;
}

void fill_bytes(const ElementType& type, ArrayNode& array, Bytes data, uint64_t size) {
  const uint64_t bytes = checked_mul(size, type.item_bytes, "pickle: bytes of an array");
  if (data.size() != bytes) corrupt("data of an array: expected ", bytes, " bytes, got ", data.size());
  array.data = data;
}

void set_order(State& state, ArrayNode& array) {
  const auto extents = std::span(state.tree.extents).subspan(array.first_extent, 2 * size_t{array.rank});
  array.order = order_of(extents.first(array.rank), extents.last(array.rank));
}

ArrayNode make_array(State& state, const Source& source) {
  ArrayNode array{.type = type_of(state, source.type, "array"), .filled = true};
  array.first_extent = static_cast<uint32_t>(state.tree.extents.size());
  array.rank = add_extents(state, source.shape, "shape");
  const uint64_t size = count_elements(std::span(state.tree.extents).last(array.rank));
  add_strides(state, array.first_extent, array.rank, source.fortran);
  const ElementType& type = state.tree.types[array.type];
  if (type.kind == ElementKind::object) {
    fill_objects(state, array, source.data, size);
  } else {
    fill_bytes(type, array, buffer_of(source.data, "data of an array"), size);
  }
  set_order(state, array);
  return array;
}

Cell add_array(State& state, const ArrayNode& array, Kind kind = Kind::array) {
  state.tree.arrays.push_back(array);
  return Cell::make(kind, state.tree.arrays.size() - 1);
}

// Reorders the axes: axis j of the array becomes stored axis axes[j].
void permute(State& state, ArrayNode& array, const Cell& axes) {
  expect_kind(axes, Kind::tuple, "axes");
  const std::span<const Cell> numbers = state.items(axes);
  expect_count(numbers, array.rank, array.rank, "axes");
  const std::span<int64_t> extents = std::span(state.tree.extents).subspan(array.first_extent, 2 * size_t{array.rank});
  const std::vector<int64_t> stored(extents.begin(), extents.end());
  std::vector<bool> seen(array.rank, false);
  for (size_t j = 0; j < array.rank; ++j) {
    const uint32_t from = size_of(numbers[j], "axes");
    if (from >= array.rank || seen[from]) corrupt("axes: expected each axis once, got ", from);
    seen[from] = true;
    extents[j] = stored[from];
    extents[array.rank + j] = stored[array.rank + from];
  }
}

}  // namespace

uint64_t count_elements(std::span<const int64_t> shape) {
  uint64_t product = 1;
  bool is_empty = false;
  for (const int64_t dim : shape) {
    is_empty = is_empty || dim == 0;
    product = checked_mul(product, static_cast<uint64_t>(std::max<int64_t>(dim, 1)), "pickle: elements of an array");
  }
  if (product > INT64_MAX) corrupt("elements of an array: expected at most ", INT64_MAX, ", got ", product);
  return is_empty ? 0 : product;
}

Order order_of(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return Order::c;
  const auto is_gapless = [&](bool fortran) {
    int64_t expected = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t axis = fortran ? i : shape.size() - 1 - i;
      if (shape[axis] == 1) continue;
      if (strides[axis] != expected) return false;
      expected *= shape[axis];
    }
    return true;
  };
  if (is_gapless(false)) return Order::c;
  return is_gapless(true) ? Order::fortran : Order::strided;
}

Array view_of(const TypeTable& table, const ElementType& type, std::span<const int64_t> shape,
              std::span<const int64_t> strides, const void* data) {
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  uint64_t span = is_empty ? 0 : 1;
  for (size_t i = 0; i < shape.size() && !is_empty; ++i) span += static_cast<uint64_t>((shape[i] - 1) * strides[i]);
  return {.type = type,
          .table = table,
          .order = order_of(shape, strides),
          .shape = shape,
          .strides = strides,
          .data = {static_cast<const std::byte*>(data), span * type.item_bytes}};
}

uint8_t add_extents(State& state, const Cell& tuple, std::string_view what) {
  expect_kind(tuple, Kind::tuple, what);
  const std::span<const Cell> numbers = state.items(tuple);
  if (numbers.size() > kMaxRank) corrupt(what, ": expected at most ", kMaxRank, " dimensions, got ", numbers.size());
  for (const Cell& number : numbers) {
    expect_kind(number, Kind::integer, what);
    if (number.integer < 0) corrupt(what, ": expected at least 0, got ", number.integer);
    state.tree.extents.push_back(number.integer);
  }
  return static_cast<uint8_t>(numbers.size());
}

Cell numpy_reconstruct(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 3, 3, "_reconstruct");
  if (!is_global(arguments[0], Global::ndarray)) {
    unsafe("_reconstruct: expected numpy.ndarray, got ", describe(arguments[0]));
  }
  expect_kind(arguments[1], Kind::tuple, "_reconstruct");
  const std::span<const Cell> shape = state.items(arguments[1]);
  const bool is_usual = shape.size() == 1 && is_integer(shape[0], 0) && arguments[2].kind() == Kind::bytes &&
                        as_text(arguments[2].bytes()) == "b";
  if (!is_usual) corrupt("_reconstruct: expected (0,) and b'b', got something else");
  return add_array(state, ArrayNode{});
}

void build_numpy_array(State& state, const Cell& array, const Cell& build_state) {
  expect_kind(build_state, Kind::tuple, "state of an array");
  const std::span<const Cell> entries = state.items(build_state);
  expect_count(entries, 5, 5, "state of an array");
  if (!is_integer(entries[0], 1)) corrupt("state of an array: expected version 1");
  if (state.tree.arrays[array.node].filled) corrupt("BUILD: expected an empty array, got one that is filled");
  const bool fortran = flag_of(entries[3], "order of an array");
  state.tree.arrays[array.node] = make_array(state, {entries[1], entries[2], entries[4], fortran});
}

Cell numpy_from_buffer(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 4, 5, "_frombuffer");
  const std::string_view order = text_of(arguments[3], "order of an array");
  const bool has_axes = arguments.size() == 5;
  if (order != (has_axes ? "K" : "C") && (has_axes || order != "F")) {
    corrupt("order of an array: expected ", has_axes ? "K" : "C or F", ", got ", excerpt(order));
  }
  ArrayNode array = make_array(state, {arguments[2], arguments[1], arguments[0], order == "F"});
  if (has_axes) {
    permute(state, array, arguments[4]);
    set_order(state, array);
  }
  return add_array(state, array);
}

Cell numpy_array(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 3, 3, "numpy.ndarray");
  state.tree.types.push_back(parse_type_text(text_of(arguments[1], "numpy.ndarray")));
  const Cell type = Cell::make(Kind::dtype, state.tree.types.size() - 1);
  return add_array(state, make_array(state, {arguments[0], type, arguments[2], false}));
}

Cell numpy_scalar(State& state, std::span<const Cell> arguments) {
  expect_count(arguments, 2, 2, "scalar");
  ArrayNode array{.type = type_of(state, arguments[0], "scalar"), .filled = true};
  array.first_extent = static_cast<uint32_t>(state.tree.extents.size());
  const ElementType& type = state.tree.types[array.type];
  if (type.kind == ElementKind::object) unsafe("scalar: expected plain data, got object");
  expect_kind(arguments[1], Kind::bytes, "scalar");
  fill_bytes(type, array, arguments[1].bytes(), 1);
  return add_array(state, array, Kind::scalar);
}

}  // namespace atompack::pickle
