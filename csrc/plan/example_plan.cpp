#include "plan/example_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

namespace atompack::plan {
namespace {

const Request kAllFields;

std::vector<Observation> observe(const ValueMolecules& source) {
  std::vector<Observation> all;
  for (int64_t molecule = 0; molecule < source.size(); ++molecule) {
    for (const ValueMolecules::Entry& entry : source.entries(molecule)) {
      const bool has_rows = entry.type.level == Level::molecule || source.extent(molecule).n_atoms > 0;
      all.push_back({molecule, entry.field, entry.type, Shape(entry.row_shape), has_rows});
    }
  }
  return all;
}

DType common_positions_dtype(const ValueMolecules& source) {
  DType common = source.positions_dtype(0);
  for (int64_t i = 1; i < source.size(); ++i) common = *common_dtype(common, source.positions_dtype(i));
  return common;
}

}  // namespace

std::optional<MoleculesPlan> plan_molecules(std::span<const Value> dicts, std::span<const int64_t> numbers,
                                            const KeyLevels& levels, ArenaLayout& arena) {
  MoleculesPlan plan{.source = ValueMolecules::make(dicts, levels), .fields = {}, .batch = {}, .numbers = {}};
  if (plan.source == nullptr) return std::nullopt;
  const ValueMolecules& source = *plan.source;
  plan.fields = std::make_unique<FieldSet>(source.schemas(), kAllFields);
  plan.numbers.assign(numbers.begin(), numbers.end());
  BatchPlan& batch = plan.batch;
  batch.indices.resize(dicts.size());
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  count_rows(source, batch);
  batch.table = plan.fields->table();
  batch.positions = common_positions_dtype(source);
  // Fewer fields than keys: two keys name the same field, because one of them has an explicit scope prefix.
  if (plan.fields->size() != source.schemas().front().fields.size()) return std::nullopt;
  const std::vector<Observation> all = source.is_uniform() ? std::vector<Observation>{} : observe(source);
  std::vector<std::vector<const Observation*>> observed(plan.fields->size());
  for (const Observation& seen : all) observed[static_cast<size_t>(seen.field)].push_back(&seen);
  for (size_t field = 0; field < plan.fields->size(); ++field) {
    try {
      batch.fields.push_back(plan.fields->resolve(field, std::array{0}, observed[field], batch.n_molecules()));
    } catch (const FieldError&) {
      return std::nullopt;
    }
    const FieldDeclaration& declared = source.schemas().front().fields[field];
    const auto is_number = [](const Observation* seen) { return seen->row_shape.rank() == 0; };
    const bool has_numbers =
        declared.row_shape ? declared.row_shape->rank() == 0 : std::ranges::any_of(observed[field], is_number);
    if (declared.scope != Scope::molecule_property || !has_numbers) continue;
    DType& dtype = batch.fields.back().type.dtype;
    dtype = number_dtype(dtype);
  }
  lay_out(batch, arena);
  return plan;
}

namespace {

using Form = ExampleNode::Form;

// Thrown if examples cannot share a batch; plan_examples() catches it.
struct Incompatible {};

ExampleNode string_node(std::span<const Value> column, Kind kind) {
  ExampleNode node{.form = kind == Kind::text ? Form::strings : Form::bytes};
  for (const Value& value : column) {
    if (value.kind() != kind) throw Incompatible();
    node.strings.emplace_back(kind == Kind::text ? value.text() : as_text(value.bytes()));
  }
  return node;
}

std::vector<int64_t> with_rows(int64_t rows, std::span<const int64_t> shape) {
  std::vector<int64_t> all{rows};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

// Rows without elements take no bytes, so a file may claim any number of them.
int64_t add_row_counts(int64_t a, int64_t b) {
  const uint64_t sum = static_cast<uint64_t>(a) + static_cast<uint64_t>(b);
  if (sum > static_cast<uint64_t>(INT64_MAX))
    throw_corrupt("rows of a batch: expected at most ", INT64_MAX, ", got ", sum);
  return static_cast<int64_t>(sum);
}

// Returns the value of `key`, which is usually at the same position in every example.
Value value_at(const Value& dict, std::string_view key, size_t guess) {
  const Value guessed = dict.key(guess);
  if (guessed.kind() == Kind::text && guessed.text() == key) return dict.value(guess);
  const std::optional<Value> found = dict.find(key);
  if (!found) throw Incompatible();
  return *found;
}

void expect_kind(std::span<const Value> column, Kind kind) {
  for (const Value& value : column) {
    if (value.kind() != kind || value.size() != column.front().size()) throw Incompatible();
  }
}

Leaf make_leaf(std::span<const int64_t> content) {
  const Bytes bytes = std::as_bytes(content);
  return {.shape = {std::ssize(content)}, .content = {bytes.begin(), bytes.end()}};
}

StoredTensor tensor_of(const Value& value) {
  if (const auto tensor = stored_tensor(value)) return *tensor;
  throw Incompatible();
}

bool same_shape(const StoredTensor& a, const StoredTensor& b) { return std::ranges::equal(a.shape, b.shape); }

class ExamplePlanner {
 public:
  ExamplePlanner(ExamplePlan& plan, std::span<const int64_t> numbers, const KeyLevels& levels, bool jagged)
      : plan_(plan), numbers_(numbers), levels_(levels), jagged_(jagged) {}

  // Plans the batch of a column: one value per example.
  ExampleNode plan(std::span<const Value> column) {
    const Value& first = column.front();
    switch (first.kind()) {
      case Kind::text:
      case Kind::bytes:
        return string_node(column, first.kind());
      case Kind::list:
      case Kind::tuple:
        return plan_list(column);
      case Kind::dict:
        return is_molecule(first) ? plan_molecules(column) : plan_dict(column);
      default:
        return plan_tensors(column);
    }
  }

 private:
  // Reserves space for the leaf in the arena and returns its index in the plan.
  size_t add(Leaf leaf) {
    leaf.offset = plan_.arena.add(leaf.dtype, leaf.shape);
    plan_.leaves.push_back(std::move(leaf));
    return plan_.leaves.size() - 1;
  }

  ExampleNode plan_tensors(std::span<const Value> column) {
    const Kind kind = column.front().kind();
    std::vector<StoredTensor> tensors;
    tensors.reserve(column.size());
    for (const Value& value : column) {
      if (value.kind() != kind) throw Incompatible();
      tensors.push_back(tensor_of(value));
      if (tensors.back().dtype != tensors.front().dtype) throw Incompatible();
    }
    const StoredTensor& first = tensors.front();
    if (!std::ranges::all_of(tensors, [&](const StoredTensor& other) { return same_shape(other, first); })) {
      return plan_unequal(column, tensors);
    }
    Leaf leaf{.dtype = first.dtype, .shape = with_rows(std::ssize(column), first.shape)};
    leaf.parts.reserve(column.size());
    for (size_t i = 0; i < column.size(); ++i) leaf.parts.push_back({column[i], i * first.bytes, first.bytes});
    return {.leaves = {add(std::move(leaf))}};
  }

  ExampleNode plan_unequal(std::span<const Value> column, std::span<const StoredTensor> tensors) {
    const std::span<const int64_t> first = tensors.front().shape;
    const bool same_rows = std::ranges::all_of(tensors, [&](const StoredTensor& tensor) {
      return !tensor.shape.empty() && !first.empty() && std::ranges::equal(tensor.shape.subspan(1), first.subspan(1));
    });
    if (jagged_ && same_rows) return plan_jagged(column, tensors);
    ExampleNode node{.form = Form::tensors};
    for (size_t i = 0; i < column.size(); ++i) {
      node.leaves.push_back(add({.dtype = tensors[i].dtype,
                                 .shape = {tensors[i].shape.begin(), tensors[i].shape.end()},
                                 .parts = {{column[i], 0, tensors[i].bytes}}}));
    }
    return node;
  }

  ExampleNode plan_jagged(std::span<const Value> column, std::span<const StoredTensor> tensors) {
    Leaf leaf{.dtype = tensors.front().dtype};
    std::vector<int64_t> offsets{0};
    size_t offset = 0;
    for (size_t i = 0; i < column.size(); ++i) {
      leaf.parts.push_back({column[i], offset, tensors[i].bytes});
      offset += tensors[i].bytes;
      offsets.push_back(add_row_counts(offsets.back(), tensors[i].shape.front()));
    }
    leaf.shape = with_rows(offsets.back(), tensors.front().shape.subspan(1));
    const size_t values = add(std::move(leaf));
    return {.form = Form::jagged, .leaves = {values, add(make_leaf(offsets))}};
  }

  ExampleNode plan_dict(std::span<const Value> column) {
    expect_kind(column, Kind::dict);
    ExampleNode node{.form = Form::dict};
    std::vector<Value> values;
    for (size_t k = 0; k < column.front().size(); ++k) {
      const Value key = column.front().key(k);
      if (key.kind() != Kind::text) throw Incompatible();
      values.clear();
      for (const Value& dict : column) values.push_back(value_at(dict, key.text(), k));
      node.children.push_back(plan(values));
      const bool clashes =
          node.children.back().form == Form::jagged && column.front().find(cat(key.text(), "_offsets"));
      if (clashes) throw Incompatible();
      node.keys.emplace_back(key.text());
    }
    return node;
  }

  ExampleNode plan_list(std::span<const Value> column) {
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

  ExampleNode plan_molecules(std::span<const Value> column) {
    std::optional<MoleculesPlan> molecules = plan::plan_molecules(column, numbers_, levels_, plan_.arena);
    if (!molecules) throw Incompatible();
    plan_.molecules.push_back(std::move(*molecules));
    return {.form = Form::molecules, .molecules = plan_.molecules.size() - 1};
  }

  ExamplePlan& plan_;
  std::span<const int64_t> numbers_;
  const KeyLevels& levels_;
  bool jagged_;
};

}  // namespace

size_t Leaf::bytes() const {
  size_t n = item_bytes(dtype);
  for (const int64_t dim : shape) n *= static_cast<size_t>(dim);
  return n;
}

std::optional<ExamplePlan> plan_examples(std::span<const Value> examples, std::span<const int64_t> numbers,
                                         const KeyLevels& levels, bool jagged) {
  ExamplePlan plan;
  if (examples.empty()) return std::nullopt;
  try {
    plan.root = ExamplePlanner(plan, numbers, levels, jagged).plan(examples);
  } catch (const Incompatible&) {
    return std::nullopt;
  }
  return plan;
}

}  // namespace atompack::plan
