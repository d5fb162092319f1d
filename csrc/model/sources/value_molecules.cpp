#include "model/sources/value_molecules.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked_math.h"
#include "model/fields.h"

namespace atompack {
namespace {

constexpr std::string_view kPositionsKey = "positions", kNumbersKey = "atomic_numbers";
constexpr int64_t kMostAtoms = int64_t{1} << 32;

constexpr std::array<std::pair<std::string_view, Scope>, 2> kPrefixes = {
    {{"atom_properties/", Scope::atom_property}, {"properties/", Scope::molecule_property}}};

bool has_rows(const Value& value, int64_t n_atoms) {
  if (!value.has_array()) return false;
  const auto shape = value.array().shape;
  return !shape.empty() && shape[0] == n_atoms;
}

// Whether a label may hold values of this type; ones of integers only where every format widens them.
bool fits_label(const BuiltinField& field, DType dtype) {
  if (field.kind != ValueKind::numeric) return false;
  if (field.dtype == DType::boolean) return dtype == DType::boolean;
  return is_floating(dtype) || (field.key == "energy" && is_integer(dtype) && dtype != DType::uint64);
}

Bytes data_of(const StoredTensor& tensor, const Value& value) {
  if (value.has_array() || value.kind() == Kind::text) return tensor.data;
  return std::as_bytes(std::span(&value.cell().integer, 1)).first(tensor.bytes);  // in this copy of the cell
}

// Takes what decode() has copied, one value after another.
class CopiedValues {
 public:
  explicit CopiedValues(Bytes record) : rest_(record) {}

  Bytes next(const StoredTensor& tensor, const Value& value) {
    if (!tensor.is_copied) return data_of(tensor, value);
    const Bytes data = rest_.first(tensor.bytes);
    rest_ = rest_.subspan(tensor.bytes);
    return data;
  }

 private:
  Bytes rest_;
};

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
  if (!made->gather(dicts) || !made->settle_structure()) return nullptr;
  made->identify_columns(levels);
  if (!made->has_distinct_fields()) return nullptr;
  for (Molecule& molecule : made->molecules_) {
    for (size_t i = molecule.first_entry; i < molecule.last_entry; ++i) {
      Entry& entry = made->entries_[i];
      if (!made->settle(entry, molecule.n_atoms)) return nullptr;
      molecule.bytes += entry.tensor.bytes;
      if (entry.tensor.is_copied) molecule.copied_bytes += entry.tensor.bytes;
    }
  }
  for (size_t field = 0; field < made->columns_.size(); ++field) {
    if (!made->columns_[field].same_shape) made->schema_.fields[field].row_shape = std::nullopt;
  }
  return made;
}

bool ValueMolecules::gather(std::span<const Value> dicts) {
  molecules_.reserve(dicts.size());
  for (const Value& dict : dicts) {
    if (!is_molecule(dict)) return false;
    const size_t first = entries_.size();
    if (!gather_keys(dict, std::ssize(molecules_))) return false;
    molecules_.push_back({*dict.find(kPositionsKey), *dict.find(kNumbersKey), first, entries_.size()});
  }
  return true;
}

bool ValueMolecules::gather_keys(const Value& dict, int64_t molecule) {
  size_t guess = 0;
  for (size_t k = 0; k < dict.size(); ++k) {
    const Value key = dict.key(k);
    if (key.kind() != Kind::text) return false;
    if (key.text() == kPositionsKey || key.text() == kNumbersKey) continue;
    const size_t number = column_of(key.text(), guess);
    guess = number + 1;
    Column& column = columns_[number];
    if (column.last_molecule == molecule) {
      entries_[column.last_entry].value = dict.value(k);
      continue;
    }
    column.last_molecule = molecule;
    column.last_entry = entries_.size();
    entries_.push_back({static_cast<int32_t>(number), dict.value(k)});
  }
  return true;
}

// Mostly all molecules have the same keys in the same order.
size_t ValueMolecules::column_of(std::string_view key, size_t guess) {
  if (guess < columns_.size() && columns_[guess].key == key) return guess;
  const auto found = std::ranges::find(columns_, key, &Column::key);
  if (found == columns_.end()) {
    columns_.push_back({.key = key});
    return columns_.size() - 1;
  }
  return static_cast<size_t>(found - columns_.begin());
}

bool ValueMolecules::settle_structure() {
  for (Molecule& molecule : molecules_) {
    const auto positions = stored_tensor(molecule.positions_value), numbers = stored_tensor(molecule.numbers_value);
    if (!positions || !numbers) return false;
    if (numbers->shape.size() != 1 || !is_integer(numbers->dtype) || numbers->shape[0] >= kMostAtoms) return false;
    molecule.n_atoms = numbers->shape[0];
    const std::array<int64_t, 2> expected{molecule.n_atoms, 3};
    if (!is_floating(positions->dtype) || !std::ranges::equal(positions->shape, expected)) return false;
    molecule.positions = *positions;
    molecule.numbers = *numbers;
    molecule.bytes = positions->bytes + numbers->bytes;
    if (positions->is_copied) molecule.copied_bytes += positions->bytes;
    if (numbers->is_copied) molecule.copied_bytes += numbers->bytes;
  }
  if (!molecules_.empty()) schema_.positions = molecules_.front().positions.dtype;
  return true;
}

void ValueMolecules::identify_columns(const KeyLevels& levels) {
  for (size_t number = 0; number < columns_.size(); ++number) {
    const std::string_view key = columns_[number].key;
    FieldDeclaration field{Scope::builtin, std::string(key), {}, std::nullopt};
    const auto prefix = std::ranges::find_if(kPrefixes, [&](const auto& one) { return key.starts_with(one.first); });
    if (const BuiltinField* const builtin = find_builtin(key)) {
      field.type.level = builtin->level;
    } else if (prefix != kPrefixes.end()) {
      field.scope = prefix->second;
      field.key = key.substr(prefix->first.size());
    } else {
      const auto known = levels.find(key);
      const bool per_atom = known != levels.end() ? known->second : every_value_has_rows(static_cast<int32_t>(number));
      field.scope = per_atom ? Scope::atom_property : Scope::molecule_property;
    }
    if (field.scope == Scope::atom_property) field.type.level = Level::atom;
    schema_.fields.push_back(std::move(field));
  }
}

bool ValueMolecules::every_value_has_rows(int32_t field) const {
  return std::ranges::all_of(molecules_, [&](const Molecule& molecule) {
    const auto of_molecule =
        std::span(entries_).subspan(molecule.first_entry, molecule.last_entry - molecule.first_entry);
    return std::ranges::all_of(of_molecule, [&](const Entry& entry) {
      return entry.field != field || has_rows(entry.value, molecule.n_atoms);
    });
  });
}

// A key may name the field of another one that has its scope in front.
bool ValueMolecules::has_distinct_fields() const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const FieldDeclaration& field = schema_.fields[i];
    if (field.key == columns_[i].key) continue;
    const auto same = [&](const FieldDeclaration& other) {
      return other.scope == field.scope && other.key == field.key;
    };
    if (std::ranges::count_if(schema_.fields, same) > 1) return false;
  }
  return true;
}

// Types and shapes of one value; false where the field cannot have it.
bool ValueMolecules::settle(Entry& entry, int64_t n_atoms) {
  Column& column = columns_[static_cast<size_t>(entry.field)];
  FieldDeclaration& field = schema_.fields[static_cast<size_t>(entry.field)];
  const bool per_atom = field.type.level == Level::atom;
  const BuiltinField* const builtin = field.scope == Scope::builtin ? find_builtin(field.key) : nullptr;
  entry.type.level = field.type.level;
  if (entry.value.kind() == Kind::text) {
    if (per_atom || (builtin != nullptr && builtin->kind != ValueKind::string)) return false;
    entry.type.kind = ValueKind::string;
    entry.type.dtype = DType::uint8;
    entry.tensor.data = as_bytes(entry.value.text());
  } else {
    const auto tensor = stored_tensor(entry.value);
    if (!tensor || (per_atom && (tensor->shape.empty() || tensor->shape[0] != n_atoms))) return false;
    entry.tensor = *tensor;
    entry.type.dtype = tensor->dtype;
    entry.row_shape = per_atom ? tensor->shape.subspan(1) : tensor->shape;
    if (builtin != nullptr) {
      if (!fits_label(*builtin, tensor->dtype) || !std::ranges::equal(entry.row_shape, builtin->row.dims()))
        return false;
    } else if (tensor->shape.empty()) {
      if (tensor->dtype == DType::uint64) return false;
      column.has_numbers = true;
    }
  }
  if (!column.known) {
    column.known = true;
    field.type = entry.type;
    field.row_shape.emplace();
    for (const int64_t dim : entry.row_shape) field.row_shape->push_back(dim);
  } else {
    column.same_shape = column.same_shape && std::ranges::equal(entry.row_shape, field.row_shape->dims());
    uniform_ = uniform_ && column.same_shape && entry.type == field.type;
  }
  return true;
}

MoleculeExtent ValueMolecules::extent(int64_t index) const {
  const Molecule& molecule = at(index);
  return {molecule.n_atoms, static_cast<int64_t>(molecule.copied_bytes), static_cast<int64_t>(molecule.bytes)};
}

Bytes ValueMolecules::decode(int64_t index, std::span<std::byte> scratch) const {
  const Molecule& molecule = at(index);
  const std::span<std::byte> record = scratch.first(molecule.copied_bytes);
  std::span<std::byte> rest = record;
  const auto copy = [&](const StoredTensor& tensor, const Value& value) {
    if (!tensor.is_copied) return;
    copy_out(value.array(), rest.first(tensor.bytes));
    rest = rest.subspan(tensor.bytes);
  };
  copy(molecule.positions, molecule.positions_value);
  copy(molecule.numbers, molecule.numbers_value);
  for (const Entry& entry : entries(index)) copy(entry.tensor, entry.value);
  return record;
}

void ValueMolecules::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  const Molecule& molecule = at(index);
  CopiedValues values(record);
  const Bytes positions = values.next(molecule.positions, molecule.positions_value);
  const Bytes numbers = values.next(molecule.numbers, molecule.numbers_value);
  visitor.geometry({molecule.n_atoms, molecule.positions.dtype, positions, numbers, molecule.numbers.dtype});
  for (const Entry& entry : entries(index)) {
    const FieldDeclaration& field = schema_.fields[static_cast<size_t>(entry.field)];
    FieldView view{
        .scope = field.scope, .key = field.key, .type = entry.type, .row_shape = {}, .declaration = entry.field};
    for (const int64_t dim : entry.row_shape) view.row_shape.push_back(dim);
    visitor.field(view, values.next(entry.tensor, entry.value));
  }
}

std::span<const ValueMolecules::Entry> ValueMolecules::entries(int64_t index) const {
  const Molecule& molecule = at(index);
  return std::span(entries_).subspan(molecule.first_entry, molecule.last_entry - molecule.first_entry);
}

}  // namespace atompack
