#include "plan/examples/example_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plan/examples/example_planner.h"

namespace atompack::collate {
namespace {

using Form = ExampleNode::Form;

constexpr size_t kMostRank = 62;  // torch stops at 64

ExampleNode text_node(std::span<const Value> column, Kind kind) {
  ExampleNode node{.form = kind == Kind::text ? Form::texts : Form::bytes};
  for (const Value& value : column) {
    if (value.kind() != kind) throw NotAlike();
    node.texts.emplace_back(kind == Kind::text ? value.text() : as_text(value.bytes()));
  }
  return node;
}

std::vector<int64_t> with_rows(int64_t rows, std::span<const int64_t> shape) {
  std::vector<int64_t> all{rows};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

// Rows of nothing take no bytes, so any number of them may be claimed.
int64_t sum_of_rows(int64_t a, int64_t b) {
  const uint64_t sum = static_cast<uint64_t>(a) + static_cast<uint64_t>(b);
  if (sum > static_cast<uint64_t>(INT64_MAX))
    throw CorruptFileError(cat("rows of a batch: expected at most ", INT64_MAX, ", got ", sum));
  return static_cast<int64_t>(sum);
}

// The value of a key in another example: mostly it stands in the same place.
Value value_at(const Value& dict, std::string_view key, size_t guess) {
  const Value there = dict.key(guess);
  if (there.kind() == Kind::text && there.text() == key) return dict.value(guess);
  const std::optional<Value> found = dict.find(key);
  if (!found) throw NotAlike();
  return *found;
}

void expect_kind(std::span<const Value> column, Kind kind) {
  for (const Value& value : column) {
    if (value.kind() != kind || value.size() != column.front().size()) throw NotAlike();
  }
}

}  // namespace

size_t Leaf::bytes() const {
  size_t n = item_bytes(dtype);
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

bool TensorType::operator==(const TensorType& other) const {
  return dtype == other.dtype && std::ranges::equal(shape, other.shape);
}

size_t TensorType::bytes() const {
  size_t n = item_bytes(dtype);
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

TensorType tensor_type(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return {DType::boolean, {}};
    case Kind::integer:
      return {DType::int64, {}};
    case Kind::real:
      return {DType::float64, {}};
    case Kind::array:
    case Kind::scalar:
    case Kind::tensor: {
      const Array array = value.array();
      const std::optional<DType> dtype = dtype_of(array.type);
      if (!dtype || array.requires_grad || array.shape.size() > kMostRank) throw NotAlike();
      return {*dtype, array.shape};
    }
    default:
      throw NotAlike();
  }
}

Leaf leaf_of(std::span<const int64_t> content) {
  const Bytes bytes = std::as_bytes(content);
  return {.shape = {std::ssize(content)}, .content = {bytes.begin(), bytes.end()}};
}

size_t ExamplePlanner::add(Leaf leaf) {
  leaf.offset = plan_.arena.add(leaf.dtype, leaf.shape);
  plan_.leaves.push_back(std::move(leaf));
  return plan_.leaves.size() - 1;
}

ExampleNode ExamplePlanner::plan(std::span<const Value> column) {
  const Value& first = column.front();
  switch (first.kind()) {
    case Kind::text:
    case Kind::bytes:
      return text_node(column, first.kind());
    case Kind::list:
    case Kind::tuple:
      return plan_list(column);
    case Kind::dict:
      return is_molecule(first) ? plan_molecules(column) : plan_dict(column);
    default:
      return plan_tensors(column);
  }
}

ExampleNode ExamplePlanner::plan_tensors(std::span<const Value> column) {
  const Kind kind = column.front().kind();
  std::vector<TensorType> types;
  types.reserve(column.size());
  for (const Value& value : column) {
    if (value.kind() != kind) throw NotAlike();
    types.push_back(tensor_type(value));
    if (types.back().dtype != types.front().dtype) throw NotAlike();
  }
  const TensorType& type = types.front();
  if (!std::ranges::all_of(types, [&](const TensorType& other) { return other == type; })) {
    return plan_unequal(column, types);
  }
  Leaf leaf{.dtype = type.dtype, .shape = with_rows(std::ssize(column), type.shape)};
  leaf.parts.reserve(column.size());
  const size_t length = type.bytes();
  for (size_t i = 0; i < column.size(); ++i) leaf.parts.push_back({column[i], i * length, length});
  return {.leaves = {add(std::move(leaf))}};
}

ExampleNode ExamplePlanner::plan_unequal(std::span<const Value> column, std::span<const TensorType> types) {
  const std::span<const int64_t> first = types.front().shape;
  const bool same_rows = std::ranges::all_of(types, [&](const TensorType& type) {
    return !type.shape.empty() && !first.empty() && std::ranges::equal(type.shape.subspan(1), first.subspan(1));
  });
  if (jagged_ && same_rows) return plan_jagged(column, types);
  ExampleNode node{.form = Form::tensors};
  for (size_t i = 0; i < column.size(); ++i) {
    node.leaves.emplace_back(add({.dtype = types[i].dtype,
                                  .shape = {types[i].shape.begin(), types[i].shape.end()},
                                  .parts = {{column[i], 0, types[i].bytes()}}}));
  }
  return node;
}

ExampleNode ExamplePlanner::plan_jagged(std::span<const Value> column, std::span<const TensorType> types) {
  Leaf leaf{.dtype = types.front().dtype};
  std::vector<int64_t> offsets{0};
  size_t at = 0;
  for (size_t i = 0; i < column.size(); ++i) {
    leaf.parts.push_back({column[i], at, types[i].bytes()});
    at += types[i].bytes();
    offsets.push_back(sum_of_rows(offsets.back(), types[i].shape.front()));
  }
  leaf.shape = with_rows(offsets.back(), types.front().shape.subspan(1));
  const size_t values = add(std::move(leaf));
  return {.form = Form::jagged, .leaves = {values, add(leaf_of(offsets))}};
}

ExampleNode ExamplePlanner::plan_dict(std::span<const Value> column) {
  expect_kind(column, Kind::dict);
  ExampleNode node{.form = Form::dict};
  std::vector<Value> values;
  for (size_t k = 0; k < column.front().size(); ++k) {
    const Value key = column.front().key(k);
    if (key.kind() != Kind::text) throw NotAlike();
    values.clear();
    for (const Value& dict : column) values.push_back(value_at(dict, key.text(), k));
    node.children.push_back(plan(values));
    const bool clashes = node.children.back().form == Form::jagged && column.front().find(cat(key.text(), "_offsets"));
    if (clashes) throw NotAlike();
    node.keys.emplace_back(key.text());
  }
  return node;
}

ExampleNode ExamplePlanner::plan_list(std::span<const Value> column) {
  expect_kind(column, column.front().kind());
  ExampleNode node{.form = Form::list};
  std::vector<Value> values;
  for (size_t i = 0; i < column.front().size(); ++i) {
    values.clear();
    for (const Value& list : column) values.push_back(list.item(i));
    node.children.push_back(plan(values));
  }
  return node;
}

std::optional<ExamplePlan> plan_examples(std::span<const Value> examples, std::span<const int64_t> numbers,
                                         const KeyLevels& levels, bool jagged) {
  ExamplePlan plan;
  if (examples.empty()) return std::nullopt;
  try {
    plan.root = ExamplePlanner(plan, numbers, levels, jagged).plan(examples);
  } catch (const NotAlike&) {
    return std::nullopt;
  }
  return plan;
}

}  // namespace atompack::collate
