#include "serial/pickle/numpy_dtype.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/excerpt.h"
#include "serial/pickle/arguments.h"

namespace atompack::pickle {
namespace {

constexpr size_t kMaxFields = 1024;
constexpr int kMaxFieldDepth = 8;
constexpr int64_t kObjectFlags = 63;  // flags of object arrays; with other flags NumPy would take bytes for pointers

struct Letter {
  char letter;
  ElementKind kind;
};

constexpr Letter kLetters[] = {
    {'b', ElementKind::boolean},          {'i', ElementKind::signed_integer},
    {'u', ElementKind::unsigned_integer}, {'f', ElementKind::floating},
    {'c', ElementKind::complex},          {'U', ElementKind::text},
    {'S', ElementKind::byte_string},      {'V', ElementKind::raw},
    {'M', ElementKind::datetime},         {'m', ElementKind::timedelta},
    {'O', ElementKind::object},
};

bool is_size_of(const Letter& letter, uint32_t size) {
  switch (letter.kind) {
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
  const auto letter = std::ranges::find(kLetters, code.empty() ? '\0' : code[0], &Letter::letter);
  if (letter == std::end(kLetters)) unsafe("dtype: expected an element type of plain data, got ", excerpt(code));
  uint32_t size = 0;
  const auto [stop, error] = std::from_chars(code.data() + 1, code.data() + code.size(), size);
  if (error != std::errc() || stop != code.data() + code.size() || !is_size_of(*letter, size)) {
    corrupt("dtype: expected an element type, got ", excerpt(code));
  }
  return {.kind = letter->kind, .item_bytes = letter->kind == ElementKind::text ? 4 * size : size};
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

}  // namespace atompack::pickle
