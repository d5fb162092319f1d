#include "model/value.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace atompack {
namespace {

constexpr std::array<std::string_view, 15> kNames = {"None",   "bool",  "int",          "int",    "float",
                                                     "str",    "bytes", "list",         "tuple",  "dict",
                                                     "record", "array", "NumPy scalar", "tensor", "dtype"};

[[noreturn]] void throw_wrong_kind(std::string_view wanted, Kind kind) {
  throw InternalError(cat("value: expected a ", wanted, ", got a ", name_of(kind)));
}

bool has_entries(Kind kind) { return kind == Kind::dict || kind == Kind::record; }

}  // namespace

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
