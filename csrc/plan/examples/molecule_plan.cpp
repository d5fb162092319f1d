// Dicts with positions and atomic numbers as one batch of molecules.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "model/fields.h"

#include "plan/examples/example_planner.h"

namespace atompack::collate {
namespace {

using Form = ExampleNode::Form;

constexpr std::string_view kPositions = "positions", kNumbers = "atomic_numbers";
constexpr int kBuiltin = 0, kAtomProperty = 1, kMoleculeProperty = 2;  // as in fields.py

constexpr std::array<std::pair<std::string_view, int>, 2> kPrefixes = {
    {{"atom_properties/", kAtomProperty}, {"properties/", kMoleculeProperty}}};

// The values of one key; nothing for molecules that do not have it.
struct KeyColumn {
  std::string_view key;
  std::vector<std::optional<Value>> values;
};

// In the order in which keys come up. Mostly all molecules have the same ones in the same order.
std::vector<KeyColumn> gather(std::span<const Value> molecules) {
  std::vector<KeyColumn> columns;
  for (size_t i = 0; i < molecules.size(); ++i) {
    for (size_t k = 0; k < molecules[i].size(); ++k) {
      const Value key = molecules[i].key(k);
      if (key.kind() != Kind::text) throw NotAlike();
      auto column = columns.begin() + static_cast<std::ptrdiff_t>(std::min(k, columns.size()));
      if (column == columns.end() || column->key != key.text()) {
        column = std::ranges::find(columns, key.text(), &KeyColumn::key);
      }
      if (column == columns.end()) {
        column = columns.insert(column, {key.text(), std::vector<std::optional<Value>>(molecules.size())});
      }
      column->values[i] = molecules[i].value(k);
    }
  }
  return columns;
}

bool has_rows(const Value& value, int64_t n_atoms) {
  if (!value.has_array()) return false;
  const auto shape = value.array().shape;
  return !shape.empty() && shape[0] == n_atoms;
}

bool has_shape(const TensorType& type, int64_t rows, std::span<const int64_t> row) {
  return type.shape.size() == row.size() + 1 && type.shape[0] == rows && std::ranges::equal(type.shape.subspan(1), row);
}

std::vector<std::byte> flags_of(const std::vector<std::vector<bool>>& rows) {
  std::vector<std::byte> flags;
  for (const std::vector<bool>& row : rows) {
    for (const bool flag : row) flags.push_back(std::byte{flag});
  }
  return flags;
}

// The atoms of a batch.
class Atoms {
 public:
  Atoms(std::span<const Value> molecules) {
    for (const Value& molecule : molecules) {
      const TensorType type = tensor_type(*molecule.find(kNumbers));
      if (type.shape.size() != 1 || !is_integer(type.dtype)) throw NotAlike();
      ptr_.push_back(ptr_.back() + type.shape[0]);
    }
  }

  size_t n_molecules() const { return ptr_.size() - 1; }
  int64_t n_atoms() const { return ptr_.back(); }
  int64_t n_atoms(size_t molecule) const { return ptr_[molecule + 1] - ptr_[molecule]; }
  int64_t first(size_t molecule) const { return ptr_[molecule]; }
  const std::vector<int64_t>& ptr() const { return ptr_; }

  std::vector<int64_t> counts() const {
    std::vector<int64_t> counts(n_molecules());
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = n_atoms(i);
    return counts;
  }
  std::vector<int64_t> batch() const {
    std::vector<int64_t> batch(static_cast<size_t>(n_atoms()));
    for (size_t i = 0; i < n_molecules(); ++i) {
      std::fill(batch.begin() + ptr_[i], batch.begin() + ptr_[i + 1], static_cast<int64_t>(i));
    }
    return batch;
  }

 private:
  std::vector<int64_t> ptr_{0};
};

// One field: its level settled, its values looked at.
class FieldPlanner {
 public:
  FieldPlanner(ExamplePlanner& planner, const Atoms& atoms, const KeyLevels& levels)
      : planner_(planner), atoms_(atoms), levels_(levels) {}

  MoleculeField identify(const KeyColumn& column) const {
    if (const BuiltinField* const builtin = find_builtin(column.key)) {
      return {kBuiltin, std::string(column.key), builtin->level == Level::atom};
    }
    for (const auto& [prefix, scope] : kPrefixes) {
      if (!column.key.starts_with(prefix)) continue;
      return {scope, std::string(column.key.substr(prefix.size())), scope == kAtomProperty};
    }
    const auto known = levels_.find(column.key);
    const bool per_atom = known != levels_.end() ? known->second : every_value_has_rows(column);
    return {per_atom ? kAtomProperty : kMoleculeProperty, std::string(column.key), per_atom};
  }

  ExampleNode plan(const KeyColumn& column, const MoleculeField& field) {
    const Value& first = **std::ranges::find_if(column.values, [](const auto& value) { return value.has_value(); });
    if (first.kind() == Kind::text) return plan_texts(column, field);
    const TensorType type = common_type(column, first);
    const BuiltinField* const builtin = field.scope == kBuiltin ? find_builtin(field.key) : nullptr;
    const DType dtype = dtype_of(type, builtin);
    const auto shapes = row_shapes(column, field);
    const std::span<const int64_t> row = **std::ranges::find_if(shapes, [](const auto& s) { return s.has_value(); });
    const bool equal = std::ranges::all_of(shapes, [&](const auto& s) { return !s || std::ranges::equal(*s, row); });
    if (builtin && !(equal && std::ranges::equal(row, builtin->row.dims()))) throw NotAlike();
    return equal ? plan_stacked(column, field, dtype, row) : plan_separate(column, dtype);
  }

 private:
  bool every_value_has_rows(const KeyColumn& column) const {
    for (size_t i = 0; i < column.values.size(); ++i) {
      if (column.values[i] && !has_rows(*column.values[i], atoms_.n_atoms(i))) return false;
    }
    return true;
  }

  static ExampleNode plan_texts(const KeyColumn& column, const MoleculeField& field) {
    ExampleNode node{.form = Form::texts};
    if (field.per_atom || (field.scope == kBuiltin && field.key != "name")) throw NotAlike();
    for (const std::optional<Value>& value : column.values) {
      if (value && value->kind() != Kind::text) throw NotAlike();
      node.texts.push_back(value ? std::optional<std::string>(value->text()) : std::nullopt);
    }
    return node;
  }

  static TensorType common_type(const KeyColumn& column, const Value& first) {
    const TensorType type = tensor_type(first);
    for (const std::optional<Value>& value : column.values) {
      if (value && tensor_type(*value).dtype != type.dtype) throw NotAlike();
    }
    return type;
  }

  // As molecules that are made by hand have them: numbers of a molecule are float64 and int64.
  static DType dtype_of(const TensorType& type, const BuiltinField* builtin) {
    const bool number = is_floating(type.dtype) || is_integer(type.dtype);
    if (builtin != nullptr) {
      if (builtin->key == "name") throw NotAlike();
      if (builtin->key == "pbc") {
        if (type.dtype != DType::boolean) throw NotAlike();
        return DType::boolean;
      }
      if (builtin->key == "energy" && number && type.dtype != DType::uint64) return DType::float64;
      if (!is_floating(type.dtype)) throw NotAlike();
      return type.dtype;
    }
    if (!type.shape.empty() || type.dtype == DType::boolean) return type.dtype;
    if (!number || type.dtype == DType::uint64) throw NotAlike();
    return is_floating(type.dtype) ? DType::float64 : DType::int64;
  }

  using RowShape = std::optional<std::span<const int64_t>>;

  std::vector<RowShape> row_shapes(const KeyColumn& column, const MoleculeField& field) const {
    std::vector<RowShape> shapes;
    for (size_t i = 0; i < column.values.size(); ++i) {
      if (!column.values[i]) {
        shapes.emplace_back();
        continue;
      }
      const std::span<const int64_t> shape = tensor_type(*column.values[i]).shape;
      if (field.per_atom && (shape.empty() || shape[0] != atoms_.n_atoms(i))) throw NotAlike();
      shapes.emplace_back(field.per_atom ? shape.subspan(1) : shape);
    }
    return shapes;
  }

  ExampleNode plan_stacked(const KeyColumn& column, const MoleculeField& field, DType dtype,
                           std::span<const int64_t> row) {
    const auto n_molecules = static_cast<int64_t>(atoms_.n_molecules());
    Leaf leaf{.dtype = dtype, .shape = {field.per_atom ? atoms_.n_atoms() : n_molecules}};
    leaf.shape.insert(leaf.shape.end(), row.begin(), row.end());
    leaf.gaps_are_zero = is_geometry(static_cast<Scope>(field.scope), field.key);
    const size_t row_bytes = TensorType{dtype, row}.bytes();
    for (size_t i = 0; i < column.values.size(); ++i) {
      const auto first = field.per_atom ? static_cast<size_t>(atoms_.first(i)) : i;
      const auto n = field.per_atom ? static_cast<size_t>(atoms_.n_atoms(i)) : 1;
      leaf.has_gaps = leaf.has_gaps || !column.values[i];
      if (column.values[i]) leaf.parts.push_back({*column.values[i], first * row_bytes, n * row_bytes});
    }
    return {.leaves = {planner_.add(std::move(leaf))}};
  }

  ExampleNode plan_separate(const KeyColumn& column, DType dtype) {
    ExampleNode node{.form = Form::tensors};
    for (const std::optional<Value>& value : column.values) {
      node.leaves.emplace_back();
      if (!value) continue;
      const TensorType type = tensor_type(*value);
      if (type.dtype != dtype) throw NotAlike();
      node.leaves.back() = planner_.add(
          {.dtype = dtype, .shape = {type.shape.begin(), type.shape.end()}, .parts = {{*value, 0, type.bytes()}}});
    }
    return node;
  }

  ExamplePlanner& planner_;
  const Atoms& atoms_;
  const KeyLevels& levels_;
};

void check_structure(std::span<const Value> molecules, const Atoms& atoms) {
  constexpr std::array<int64_t, 1> kRow = {3};
  const DType dtype = tensor_type(*molecules.front().find(kPositions)).dtype;
  if (!is_floating(dtype)) throw NotAlike();
  for (size_t i = 0; i < molecules.size(); ++i) {
    const TensorType type = tensor_type(*molecules[i].find(kPositions));
    if (type.dtype != dtype || !has_shape(type, atoms.n_atoms(i), kRow)) throw NotAlike();
  }
}

Leaf rows_of(const KeyColumn& column, DType dtype, const Atoms& atoms, std::span<const int64_t> row) {
  Leaf leaf{.dtype = dtype, .shape = {atoms.n_atoms()}};
  leaf.shape.insert(leaf.shape.end(), row.begin(), row.end());
  const size_t row_bytes = TensorType{dtype, row}.bytes();
  for (size_t i = 0; i < column.values.size(); ++i) {
    leaf.parts.push_back({*column.values[i], static_cast<size_t>(atoms.first(i)) * row_bytes,
                          static_cast<size_t>(atoms.n_atoms(i)) * row_bytes});
  }
  return leaf;
}

const KeyColumn& column_of(const std::vector<KeyColumn>& columns, std::string_view key) {
  return *std::ranges::find(columns, key, &KeyColumn::key);
}

}  // namespace

bool is_molecule(const Value& value) {
  return value.kind() == Kind::dict && value.find(kPositions) && value.find(kNumbers);
}

// The structure comes in the order of fields.py: positions, atomic_numbers, batch, ptr, n_atoms, index.
ExampleNode ExamplePlanner::plan_molecules(std::span<const Value> column) {
  constexpr std::array<int64_t, 1> kRow = {3};
  if (!std::ranges::all_of(column, is_molecule)) throw NotAlike();
  const Atoms atoms(column);
  check_structure(column, atoms);
  const std::vector<KeyColumn> columns = gather(column);
  ExampleNode node{.form = Form::molecules};
  const KeyColumn& positions = column_of(columns, kPositions);
  node.leaves.emplace_back(add(rows_of(positions, tensor_type(*positions.values.front()).dtype, atoms, kRow)));
  node.leaves.emplace_back(add(rows_of(column_of(columns, kNumbers), DType::int64, atoms, {})));
  for (const auto& content : {atoms.batch(), atoms.ptr(), atoms.counts()})
    node.leaves.emplace_back(add(leaf_of(content)));
  node.leaves.emplace_back(add(leaf_of(numbers_)));
  std::vector<std::vector<bool>> masks;
  FieldPlanner planner(*this, atoms, levels_);
  for (const KeyColumn& field : columns) {
    if (field.key == kPositions || field.key == kNumbers) continue;
    node.fields.push_back(planner.identify(field));
    node.children.push_back(planner.plan(field, node.fields.back()));
    masks.emplace_back();
    for (const auto& value : field.values) masks.back().push_back(value.has_value());
  }
  const auto n_fields = std::ssize(masks);
  node.leaves.emplace_back(
      add({.dtype = DType::boolean, .shape = {n_fields, std::ssize(column)}, .content = flags_of(masks)}));
  return node;
}

bool has_molecules(const Value& example) {
  const bool dict = example.kind() == Kind::dict;
  if (!dict && example.kind() != Kind::list && example.kind() != Kind::tuple) return false;
  if (is_molecule(example)) return true;
  for (size_t i = 0; i < example.size(); ++i) {
    if (has_molecules(dict ? example.value(i) : example.item(i))) return true;
  }
  return false;
}

void learn_levels(std::span<const Value> examples, KeyLevels& levels) {
  for (const Value& example : examples) {
    if (example.kind() != Kind::dict && example.kind() != Kind::list && example.kind() != Kind::tuple) continue;
    const bool dict = example.kind() == Kind::dict;
    std::optional<int64_t> n_atoms;
    if (is_molecule(example) && example.find(kNumbers)->has_array()) {
      const auto shape = example.find(kNumbers)->array().shape;
      if (shape.size() == 1) n_atoms = shape[0];
    }
    for (size_t i = 0; i < example.size(); ++i) {
      const Value value = dict ? example.value(i) : example.item(i);
      if (!n_atoms) {
        learn_levels({&value, 1}, levels);
      } else if (example.key(i).kind() == Kind::text) {
        const auto [known, is_new] = levels.try_emplace(std::string(example.key(i).text()), true);
        known->second = known->second && has_rows(value, *n_atoms);
      }
    }
  }
}

}  // namespace atompack::collate
