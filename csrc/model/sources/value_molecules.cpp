#include "model/sources/value_molecules.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked_math.h"
#include "model/fields.h"

namespace atompack {
namespace {

constexpr std::string_view kPositionsKey = "positions", kNumbersKey = "atomic_numbers";
constexpr int64_t kMaxAtoms = int64_t{1} << 32;

constexpr std::array<std::pair<std::string_view, Scope>, 2> kPrefixes = {
    {{"atom_properties/", Scope::atom_property}, {"properties/", Scope::molecule_property}}};

bool has_rows(const Value& value, int64_t n_atoms) {
  if (!value.has_array()) return false;
  const auto shape = value.array().shape;
  return !shape.empty() && shape[0] == n_atoms;
}

// True if a label may hold values of this type: integers only where every format widens them.
bool fits_label(const BuiltinField& field, DType dtype) {
  if (field.kind != ValueKind::numeric) return false;
  if (field.dtype == DType::boolean) return dtype == DType::boolean;
  return is_floating(dtype) || (field.key == "energy" && is_integer(dtype) && dtype != DType::uint64);
}

// True if a value with the key of a label is that label.
bool is_value_of(const BuiltinField& label, const Value& value, int64_t n_atoms) {
  if (label.storage == Storage::section) return true;
  const auto tensor = stored_tensor(value);
  const bool is_atoms = label.level == Level::atom;
  if (!tensor || (is_atoms && !has_rows(value, n_atoms))) return false;
  return atompack::is_value_of(label, {label.level, ValueKind::numeric, tensor->dtype},
                               tensor->shape.subspan(is_atoms ? 1 : 0));
}

// The bytes of a value. Values that decode() has copied are at the front of `record` and are removed from it.
Bytes take_data(const ValueMolecules::Entry& entry, Bytes& record) {
  const StoredTensor& tensor = entry.tensor;
  if (tensor.is_copied) return std::exchange(record, record.subspan(tensor.bytes)).first(tensor.bytes);
  if (entry.value.has_array() || entry.value.kind() == Kind::text) return tensor.data;
  return std::as_bytes(std::span(&entry.value.cell().integer, 1)).first(tensor.bytes);  // in this copy of the cell
}

}  // namespace

bool is_molecule(const Value& value) {
  return value.kind() == Kind::dict && value.find(kPositionsKey) && value.find(kNumbersKey);
}

bool has_molecules(const Value& value) {
  const bool dict = value.kind() == Kind::dict;
  if (!dict && value.kind() != Kind::list && value.kind() != Kind::tuple) return false;
  if (is_molecule(value)) return true;
  for (size_t i = 0; i < value.size(); ++i) {
    if (has_molecules(dict ? value.value(i) : value.item(i))) return true;
  }
  return false;
}

void learn_levels(std::span<const Value> values, KeyLevels& levels) {
  for (const Value& value : values) {
    if (value.kind() != Kind::dict && value.kind() != Kind::list && value.kind() != Kind::tuple) continue;
    const bool dict = value.kind() == Kind::dict;
    std::optional<int64_t> n_atoms;
    if (is_molecule(value) && value.find(kNumbersKey)->has_array()) {
      const auto shape = value.find(kNumbersKey)->array().shape;
      if (shape.size() == 1) n_atoms = shape[0];
    }
    for (size_t i = 0; i < value.size(); ++i) {
      const Value inner = dict ? value.value(i) : value.item(i);
      if (!n_atoms) {
        learn_levels({&inner, 1}, levels);
      } else if (value.key(i).kind() == Kind::text) {
        const auto [known, is_new] = levels.try_emplace(std::string(value.key(i).text()), true);
        known->second = known->second && has_rows(inner, *n_atoms);
      }
    }
  }
}

std::optional<StoredTensor> stored_tensor(const Value& value) {
  const auto number = [](DType dtype) { return StoredTensor{.dtype = dtype, .bytes = item_bytes(dtype)}; };
  switch (value.kind()) {
    case Kind::boolean:
      return number(DType::boolean);
    case Kind::integer:
      return number(DType::int64);
    case Kind::real:
      return number(DType::float64);
    case Kind::array:
    case Kind::scalar:
    case Kind::tensor:
      break;
    default:
      return std::nullopt;
  }
  const Array array = value.array();
  const std::optional<DType> dtype = dtype_of(array.type);
  if (!dtype || array.requires_grad || std::ssize(array.shape) > Shape::kMaxRank) return std::nullopt;
  StoredTensor tensor{.dtype = *dtype, .shape = array.shape, .bytes = item_bytes(*dtype)};
  for (const int64_t dim : array.shape) {
    tensor.bytes = checked_mul(tensor.bytes, static_cast<uint64_t>(dim), "bytes of an array");
  }
  tensor.is_copied = tensor.bytes > 0 && (array.order != Order::c || array.type.big_endian);
  if (!tensor.is_copied) tensor.data = array.data.first(tensor.bytes);
  return tensor;
}

std::unique_ptr<ValueMolecules> ValueMolecules::make(std::span<const Value> dicts, const KeyLevels& levels) {
  auto made = std::make_unique<ValueMolecules>();
  constexpr size_t kMaxReserved = 64;  // entries per molecule
  if (!dicts.empty() && is_molecule(dicts.front())) {
    made->entries_.reserve(dicts.size() * std::min(dicts.front().size(), kMaxReserved));
  }
  for (const Value& dict : dicts) {
    const size_t first = made->entries_.size();
    if (!made->gather(dict) || !made->set_structure(std::span(made->entries_).subspan(first))) return nullptr;
    made->starts_.push_back(made->entries_.size());
  }
  made->identify_keys(levels);
  for (int64_t i = 0; i < made->size(); ++i) {
    for (size_t k = made->starts_[i]; k < made->starts_[i + 1]; ++k) {
      Entry& entry = made->entries_[k];
      if (entry.field >= 0 && !made->set_value(entry, made->n_atoms(i))) return nullptr;
      made->any_copied_ = made->any_copied_ || entry.tensor.is_copied;
    }
  }
  for (size_t field = 0; field < made->keys_.size(); ++field) {
    if (made->ragged_[field]) made->schema_.fields[field].row_shape = std::nullopt;
  }
  if (!dicts.empty()) made->schema_.positions = made->positions_dtype(0);
  return made;
}

bool ValueMolecules::gather(const Value& dict) {
  if (!is_molecule(dict)) return false;
  for (const std::string_view key : {kPositionsKey, kNumbersKey}) entries_.push_back({-1, *dict.find(key)});
  size_t guess = 0;  // usually all molecules have the same keys in the same order
  for (size_t k = 0; k < dict.size(); ++k) {
    if (dict.key(k).kind() != Kind::text) return false;
    const std::string_view key = dict.key(k).text();
    if (key == kPositionsKey || key == kNumbersKey) continue;
    if (guess >= keys_.size() || keys_[guess] != key) {
      guess = static_cast<size_t>(std::ranges::find(keys_, key) - keys_.begin());
      if (guess == keys_.size()) keys_.push_back(key);
    }
    entries_.push_back({static_cast<int32_t>(guess++), dict.value(k)});
  }
  return true;
}

bool ValueMolecules::set_structure(std::span<Entry> structure) const {
  for (Entry& entry : structure.first(kStructure)) {
    const auto tensor = stored_tensor(entry.value);
    if (!tensor) return false;
    entry.tensor = *tensor;
  }
  const StoredTensor &positions = structure[0].tensor, &numbers = structure[1].tensor;
  if (numbers.shape.size() != 1 || !is_integer(numbers.dtype) || numbers.shape[0] >= kMaxAtoms) return false;
  return is_floating(positions.dtype) && std::ranges::equal(positions.shape, std::array{numbers.shape[0], int64_t{3}});
}

void ValueMolecules::identify_keys(const KeyLevels& levels) {
  known_.resize(keys_.size());
  ragged_.resize(keys_.size());
  for (const std::string_view key : keys_) {
    FieldDeclaration field{Scope::builtin, std::string(key), {}, std::nullopt};
    const auto prefix = std::ranges::find_if(kPrefixes, [&](const auto& one) { return key.starts_with(one.first); });
    const auto number = static_cast<int32_t>(schema_.fields.size());
    if (const BuiltinField* const builtin = find_builtin(key); builtin != nullptr && are_values_of(*builtin, number)) {
      field.type.level = builtin->level;
    } else if (prefix != kPrefixes.end()) {
      field.scope = prefix->second;
      field.key = key.substr(prefix->first.size());
    } else {
      const auto known = levels.find(key);
      const bool per_atom = known != levels.end() ? known->second : every_value_has_rows(number);
      field.scope = per_atom ? Scope::atom_property : Scope::molecule_property;
    }
    if (field.scope == Scope::atom_property) field.type.level = Level::atom;
    schema_.fields.push_back(std::move(field));
  }
}

// True if the values of a field with the key of a label are that label.
bool ValueMolecules::are_values_of(const BuiltinField& label, int32_t field) const {
  for (int64_t i = 0; i < size(); ++i) {
    for (const Entry& entry : entries(i)) {
      if (entry.field == field && !is_value_of(label, entry.value, n_atoms(i))) return false;
    }
  }
  return true;
}

bool ValueMolecules::every_value_has_rows(int32_t field) const {
  for (int64_t i = 0; i < size(); ++i) {
    for (const Entry& entry : entries(i)) {
      if (entry.field == field && !has_rows(entry.value, n_atoms(i))) return false;
    }
  }
  return true;
}

// Sets type and shape of one value; false if the field cannot hold it.
bool ValueMolecules::set_value(Entry& entry, int64_t n_atoms) {
  const auto number = static_cast<size_t>(entry.field);
  FieldDeclaration& field = schema_.fields[number];
  const bool per_atom = field.type.level == Level::atom;
  const BuiltinField* const builtin = field.scope == Scope::builtin ? find_builtin(field.key) : nullptr;
  if (entry.value.kind() == Kind::text) {
    if (per_atom || (builtin != nullptr && builtin->kind != ValueKind::string)) return false;
    entry.type = {.level = field.type.level, .kind = ValueKind::string, .dtype = DType::uint8};
    entry.tensor.data = as_bytes(entry.value.text());
  } else {
    const auto tensor = stored_tensor(entry.value);
    if (!tensor || (per_atom && (tensor->shape.empty() || tensor->shape[0] != n_atoms))) return false;
    entry.tensor = *tensor;
    entry.type = {.level = field.type.level, .kind = ValueKind::numeric, .dtype = tensor->dtype};
    entry.row_shape = tensor->shape.subspan(per_atom ? 1 : 0);
    const bool fits = builtin != nullptr ? fits_label(*builtin, tensor->dtype) &&
                                               std::ranges::equal(entry.row_shape, builtin->row.dims())
                                         : !tensor->shape.empty() || tensor->dtype != DType::uint64;
    if (!fits) return false;
  }
  if (!known_[number]) {
    known_[number] = true;
    field.type = entry.type;
    field.row_shape = Shape(entry.row_shape);
  } else if (entry.type != field.type || !std::ranges::equal(entry.row_shape, field.row_shape->dims())) {
    ragged_[number] = ragged_[number] || !std::ranges::equal(entry.row_shape, field.row_shape->dims());
    uniform_ = false;
  }
  return true;
}

MoleculeExtent ValueMolecules::extent(int64_t index) const {
  size_t bytes = 0, copied = 0;
  for (const Entry& entry : all(index)) {
    bytes += entry.tensor.bytes;
    if (entry.tensor.is_copied) copied += entry.tensor.bytes;
  }
  return {n_atoms(index), static_cast<int64_t>(copied), static_cast<int64_t>(bytes)};
}

Bytes ValueMolecules::decode(int64_t index, std::span<std::byte> scratch) const {
  size_t end = 0;
  for (const Entry& entry : all(index)) {
    if (!entry.tensor.is_copied) continue;
    copy_out(entry.value.array(), scratch.subspan(end, entry.tensor.bytes));
    end += entry.tensor.bytes;
  }
  return scratch.first(end);
}

void ValueMolecules::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  const std::span<const Entry> structure = all(index);
  const Bytes positions = take_data(structure[0], record), numbers = take_data(structure[1], record);
  visitor.geometry({n_atoms(index), positions_dtype(index), positions, numbers, structure[1].tensor.dtype});
  for (const Entry& entry : entries(index)) {
    const FieldDeclaration& field = schema_.fields[static_cast<size_t>(entry.field)];
    visitor.field({field.scope, field.key, entry.type, Shape(entry.row_shape), entry.field}, take_data(entry, record));
  }
}

}  // namespace atompack
