#include "model/value.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace atompack {
namespace {

// Size of the unit that is byte-swapped: a character of a string, a part of a complex number.
size_t unit_bytes(const ElementType& type) {
  switch (type.kind) {
    case ElementKind::text:
      return 4;
    case ElementKind::complex:
      return type.item_bytes / 2;
    case ElementKind::byte_string:
    case ElementKind::raw:
    case ElementKind::object:
      return 1;
    default:
      return type.item_bytes;
  }
}

// True if elements need no conversion.
bool is_plain(const TypeTable& table, const ElementType& type) {
  if (type.kind == ElementKind::boolean || type.big_endian) return false;
  return std::ranges::all_of(table.fields.subspan(type.first_field, type.n_fields),
                             [&](const ElementField& field) { return is_plain(table, table.types[field.type]); });
}

// In place. Recursion is limited by the depth of the type, which its creator has checked.
void make_native(const TypeTable& table, const ElementType& type, std::byte* item) {
  if (type.kind == ElementKind::boolean) *item = std::byte{*item != std::byte{0}};
  const size_t step = unit_bytes(type);
  if (type.big_endian && step > 1) {
    for (std::byte* unit = item; unit != item + type.item_bytes; unit += step) std::reverse(unit, unit + step);
  }
  for (const ElementField& field : table.fields.subspan(type.first_field, type.n_fields)) {
    make_native(table, table.types[field.type], item + field.offset);
  }
}

// Iterates over the elements in C order and computes the offset of each.
void gather(const Array& array, std::byte* out) {
  const size_t rank = array.shape.size(), item = array.type.item_bytes;
  std::vector<int64_t> index(rank, 0);
  const std::byte* from = array.data.data();
  for (uint64_t left = array.size(); left > 0; --left) {
    std::memcpy(out, from, item);
    out += item;
    for (size_t axis = rank; axis-- > 0;) {
      const int64_t stride = array.strides[axis] * static_cast<int64_t>(item);
      if (++index[axis] < array.shape[axis]) {
        from += stride;
        break;
      }
      from -= stride * (array.shape[axis] - 1);
      index[axis] = 0;
    }
  }
}

// By kind.
constexpr std::array<char, 12> kLetters = {'b', 'i', 'u', 'f', 'f', 'c', 'U', 'S', 'V', 'M', 'm', 'O'};

constexpr std::array<std::string_view, 15> kNames = {"None",   "bool",  "int",          "int",    "float",
                                                     "str",    "bytes", "list",         "tuple",  "dict",
                                                     "record", "array", "NumPy scalar", "tensor", "dtype"};

[[noreturn]] void throw_wrong_kind(std::string_view wanted, Kind kind) {
  throw InternalError(cat("value: expected a ", wanted, ", got a ", name_of(kind)));
}

bool has_entries(Kind kind) { return kind == Kind::dict || kind == Kind::record; }

}  // namespace

uint64_t Array::size() const {
  uint64_t product = 1;
  for (const int64_t dim : shape) product *= static_cast<uint64_t>(dim);
  return product;
}

void copy_out(const Array& array, std::span<std::byte> out) {
  if (array.type.kind == ElementKind::object) throw InternalError("the elements of an object array are not bytes");
  if (out.size() != array.bytes()) throw InternalError("copy_out: the output has another size than the array");
  if (out.empty()) return;
  if (array.order == Order::c) {
    std::memcpy(out.data(), array.data.data(), out.size());
  } else {
    gather(array, out.data());
  }
  if (is_plain(array.table, array.type)) return;
  for (size_t at = 0; at < out.size(); at += array.type.item_bytes) make_native(array.table, array.type, &out[at]);
}

std::optional<DType> dtype_of(const ElementType& type) {
  const auto of_size = [&](std::initializer_list<DType> types) {
    const auto found = std::ranges::find(types, size_t{type.item_bytes}, item_bytes);
    return found == types.end() ? std::nullopt : std::optional(*found);
  };
  switch (type.kind) {
    case ElementKind::boolean:
      return DType::boolean;
    case ElementKind::bfloat16:
      return DType::bfloat16;
    case ElementKind::unsigned_integer:
      return of_size({DType::uint8, DType::uint16, DType::uint32, DType::uint64});
    case ElementKind::signed_integer:
      return of_size({DType::int8, DType::int16, DType::int32, DType::int64});
    case ElementKind::floating:
      return of_size({DType::float16, DType::float32, DType::float64});
    case ElementKind::complex:
      return of_size({DType::complex64, DType::complex128});
    default:
      return std::nullopt;
  }
}

ElementType element_of(DType dtype) {
  const auto kind = [&] {
    if (dtype == DType::boolean) return ElementKind::boolean;
    if (dtype == DType::bfloat16) return ElementKind::bfloat16;
    if (is_floating(dtype)) return ElementKind::floating;
    if (!is_integer(dtype)) return ElementKind::complex;
    return dtype <= DType::uint64 ? ElementKind::unsigned_integer : ElementKind::signed_integer;
  };
  return {.kind = kind(), .item_bytes = static_cast<uint32_t>(item_bytes(dtype))};
}

std::optional<ElementKind> kind_of(char letter) {
  const auto found = std::ranges::find(kLetters, letter);
  return found == kLetters.end() ? std::nullopt : std::optional(static_cast<ElementKind>(found - kLetters.begin()));
}

bool are_apart(const TypeTable& table, std::vector<ElementField> fields) {
  std::ranges::sort(fields, {}, &ElementField::offset);
  uint32_t end = 0;
  for (const ElementField& field : fields) {
    const uint32_t bytes = table.types[field.type].item_bytes;
    if (bytes == 0 || field.offset < end) return false;
    end = field.offset + bytes;
  }
  return true;
}

std::string type_code(const ElementType& type) {
  const uint32_t number = type.kind == ElementKind::text ? type.item_bytes / 4 : type.item_bytes;
  return kLetters[static_cast<size_t>(type.kind)] + std::to_string(number);
}

std::string type_text(const TypeTable& table, const ElementType& type) {
  if (type.kind == ElementKind::bfloat16) return "bfloat16";
  if (type.n_fields > 0) {
    std::string text = "{";
    for (const ElementField& field : table.fields.subspan(type.first_field, type.n_fields)) {
      text += cat(field.name, ':', type_text(table, table.types[field.type]), '@', field.offset, ',');
    }
    return text + cat(type.item_bytes, '}');
  }
  const std::string order = unit_bytes(type) == 1 ? "|" : type.big_endian ? ">" : "<";
  if (type.kind == ElementKind::object) return "|O";
  std::string text = order + type_code(type);
  if (!type.unit.empty() && type.unit != "generic") {
    text += type.unit_count == 1 ? cat('[', type.unit, ']') : cat('[', type.unit_count, type.unit, ']');
  }
  return text;
}

std::string_view name_of(Kind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < kNames.size() ? kNames[number] : "no value yet";
}

void ValueTree::clear() {
  cells.clear();
  sequences.clear();
  arrays.clear();
  extents.clear();
  types.clear();
  fields.clear();
}

uint64_t ValueTree::bytes() const {
  const auto of = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  return sizeof(*this) + of(cells) + of(sequences) + of(arrays) + of(extents) + of(types) + of(fields);
}

uint32_t ValueTree::add_sequence(Kind kind, std::span<const Cell> items) {
  const auto size = static_cast<uint32_t>(items.size());
  sequences.push_back({kind, static_cast<uint32_t>(cells.size()), size, size});
  cells.insert(cells.end(), items.begin(), items.end());
  return static_cast<uint32_t>(sequences.size() - 1);
}

void ValueTree::append(uint32_t sequence, std::span<const Cell> items) {
  SequenceNode& node = sequences[sequence];
  const auto n = static_cast<uint32_t>(items.size());
  if (n > node.capacity - node.size) {
    const bool is_last = node.first + node.capacity == cells.size();
    if (!is_last) {
      // Moves the list to the end, where there is room; the old cells stay unchanged.
      const auto first = static_cast<uint32_t>(cells.size());
      cells.resize(cells.size() + node.size);
      std::copy_n(cells.begin() + node.first, node.size, cells.begin() + first);
      node.first = first;
    }
    // A container that grows a second time gets spare capacity, so that moves stay rare.
    node.capacity = node.size + std::max(n, node.size);
    cells.resize(node.first + node.capacity, Cell::make(Kind::none));
  }
  std::ranges::copy(items, cells.begin() + node.first + node.size);
  node.size += n;
}

std::span<const Cell> ValueTree::items(const Cell& container) const {
  const SequenceNode& node = sequences[container.node];
  return std::span(cells).subspan(node.first, node.size);
}

Array ValueTree::array(const ArrayNode& node) const {
  const auto extent = std::span(extents).subspan(node.first_extent, 2 * size_t{node.rank});
  return {.type_number = node.type,
          .type = types[node.type],
          .table = table(),
          .order = node.order,
          .requires_grad = node.requires_grad,
          .shape = extent.first(node.rank),
          .strides = extent.last(node.rank),
          .data = node.data};
}

const Cell& Value::expect(Kind kind) const {
  if (cell_.kind() != kind) throw_wrong_kind(name_of(kind), cell_.kind());
  return cell_;
}

std::span<const Cell> Value::cells() const {
  if (kind() >= Kind::list && kind() <= Kind::record) return tree_->items(cell_);
  if (kind() != Kind::array) throw_wrong_kind("container", kind());
  const ArrayNode& node = tree_->arrays[cell_.node];
  return std::span(tree_->cells).subspan(node.first_object, node.n_objects);
}

size_t Value::size() const { return has_entries(kind()) ? cells().size() / 2 : cells().size(); }

Value Value::item(size_t i) const {
  if (has_entries(kind()) || i >= cells().size()) throw_wrong_kind("sequence that long", kind());
  return {*tree_, cells()[i]};
}

Value Value::key(size_t i) const {
  if (!has_entries(kind()) || i >= size()) throw_wrong_kind("mapping that large", kind());
  return {*tree_, cells()[2 * i]};
}

Value Value::value(size_t i) const {
  if (!has_entries(kind()) || i >= size()) throw_wrong_kind("mapping that large", kind());
  return {*tree_, cells()[2 * i + 1]};
}

std::optional<Value> Value::find(std::string_view key) const {
  if (!has_entries(kind())) throw_wrong_kind("mapping", kind());
  const std::span<const Cell> entries = cells();
  for (size_t i = 0; i < entries.size(); i += 2) {
    if (entries[i].kind() == Kind::text && entries[i].text() == key) return Value(*tree_, entries[i + 1]);
  }
  return std::nullopt;
}

std::string_view Value::class_name() const {
  return tree_->class_names[tree_->sequences[expect(Kind::record).node].class_number];
}

Array Value::array() const {
  if (!has_array()) throw_wrong_kind("array", kind());
  return tree_->array(tree_->arrays[cell_.node]);
}

const ElementType& Value::dtype() const { return tree_->types[expect(Kind::dtype).node]; }

}  // namespace atompack
