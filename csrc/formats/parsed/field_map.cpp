#include "formats/parsed/field_map.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "model/fields.h"
#include "model/property_types.h"

namespace atompack::parsed {
namespace {

// Absent values of larger fields would take memory that the file does not justify.
constexpr int64_t kMaxSlotBytes = 64 << 10;
constexpr double kRounding = 1e-9;

FieldType number_type(Level level, DType dtype) {
  return {.level = level, .kind = ValueKind::numeric, .dtype = dtype, .is_atom_index = false};
}

// Type of the numbers of a key.
DType dtype_of(const Target& target) {
  if (target.kind == Kind::flag) return DType::boolean;
  if (target.kind == Kind::real) return target.is_narrow ? DType::float32 : DType::float64;
  return target.is_narrow ? DType::int32 : DType::int64;
}

std::string describe(const Array& array, const std::vector<int64_t>& shape) {
  switch (array.kind) {
    case Kind::null:
      return "None";
    case Kind::text:
      return "text";
    case Kind::real:
      return cat("float64 of shape ", Shape(shape));
    case Kind::integer:
      return cat("int64 of shape ", Shape(shape));
    case Kind::flag:
      return cat("bool of shape ", Shape(shape));
  }
  return "?";
}

bool is_near(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= 1e-300 + kRounding * std::abs(b);
}

}  // namespace

FieldMap::FieldMap(const std::vector<Target>& targets, bool has_cells, Masses masses, bool keeps_nan, bool is_exact)
    : masses_(std::move(masses)), keeps_nan_(keeps_nan), is_exact_(is_exact) {
  schema_.positions = DType::float64;
  const auto builtin = [](std::string_view key) {
    const BuiltinField& field = *find_builtin(key);
    return FieldType{.level = field.level,
                     .kind = field.kind,
                     .dtype = field.kind == ValueKind::numeric ? field.dtype : DType::uint8};
  };
  if (has_cells) declare(Scope::builtin, "cell", builtin("cell"), Shape{3, 3});
  declare(Scope::builtin, "pbc", builtin("pbc"), Shape{3});
  check_key_count(targets.size());  // of several files together
  Survey types;                     // of fields: several keys of one share its type, as values of one key do
  for (const Target& target : targets) {
    if (target.scope != Scope::builtin) {
      types.add({target.level, target.name, target.kind, target.shape, target.is_narrow});
    }
  }
  for (Target target : targets) {
    if (target.scope != Scope::builtin) {
      const SurveyedField& type = types.field(target.level, target.name);
      target.kind = type.kind;
      target.shape = type.shape;
      target.is_narrow = type.is_narrow;
    }
    places_.try_emplace({target.level, target.key}, rules_.size());
    keys_.emplace_back(target.level, target.key);
    rules_.push_back(rule_of(target));
  }
  if (has_momenta_ && numbers_.contains({Scope::builtin, "velocities"})) {
    declare(Scope::atom_property, "velocities", number_type(Level::atom, DType::float64), Shape{3});
  }
  if (has_momenta_) {
    declare(Scope::builtin, "velocities", number_type(Level::atom, DType::float64), Shape{3});
  }
  std::ranges::sort(schema_.fields, {},
                    [](const FieldDeclaration& field) { return std::pair(field.scope, field.key); });
  for (size_t i = 0; i < schema_.fields.size(); ++i) {
    numbers_[{schema_.fields[i].scope, schema_.fields[i].key}] = static_cast<int32_t>(i);
  }
  for (Rule& rule : rules_) {
    if (rule.form == Form::left_out) continue;
    const bool is_label = rule.form == Form::label || rule.form == Form::text_label || rule.form == Form::momenta;
    const Scope scope = is_label ? Scope::builtin : rule.is_atoms ? Scope::atom_property : Scope::molecule_property;
    rule.field = number_of(scope, rule.name);
    if (scope == Scope::molecule_property && !is_exact_) rule.of_atoms = number_of(Scope::atom_property, rule.name);
  }
  cell_ = number_of(Scope::builtin, "cell");
  pbc_ = number_of(Scope::builtin, "pbc");
  if (has_momenta_) velocities_ = number_of(Scope::builtin, "velocities");
  if (has_momenta_) other_velocities_ = number_of(Scope::atom_property, "velocities");
}

void FieldMap::declare(Scope scope, const std::string& key, const FieldType& type, std::optional<Shape> row_shape) {
  if (numbers_.try_emplace({scope, key}).second) schema_.fields.push_back({scope, key, type, row_shape});
}

int32_t FieldMap::number_of(Scope scope, const std::string& key) const {
  const auto found = numbers_.find({scope, key});
  return found == numbers_.end() ? -1 : found->second;
}

FieldMap::Rule FieldMap::rule_of(const Target& target) {
  Rule rule{.form = Form::values, .kind = target.kind, .is_atoms = target.level == Level::atom, .name = target.name};
  // ASE does not divide momenta by what is in the `data` of a row.
  rule.are_masses = rule.is_atoms && target.name == "masses" && !target.key.starts_with("data/");
  if (target.scope == Scope::builtin) {
    const BuiltinField* const builtin = find_builtin(target.name);
    rule.has_rows = builtin != nullptr && builtin->level == Level::atom && target.level == Level::molecule;
    if (builtin == nullptr || (builtin->level != target.level && !rule.has_rows)) {
      throw FieldError(cat(target.name, ": expected a label of this level")).at_field(target.key);
    }
    const bool is_text = builtin->kind == ValueKind::string;
    rule.form = target.from_momenta ? Form::momenta : is_text ? Form::text_label : Form::label;
    rule.kind = is_text ? Kind::text : Kind::real;
    rule.are_velocities = target.name == "velocities" && !target.from_momenta;
    if (target.from_momenta) {
      has_momenta_ = true;
      return rule;
    }
    FieldType type = number_type(builtin->level, is_text ? DType::uint8 : DType::float64);
    type.kind = builtin->kind;
    declare(Scope::builtin, target.name, type, Shape(builtin->row.dims()));
    return rule;
  }
  if ((target.scope == Scope::atom_property) != rule.is_atoms) {
    throw FieldError(cat(target.name, ": expected a property of this level")).at_field(target.key);
  }
  if (rule.is_atoms && target.kind == Kind::text) return Rule();
  if (target.kind == Kind::null) {
    declare(target.scope, target.name, {.level = target.level, .kind = ValueKind::none, .dtype = DType::uint8},
            Shape());
    return rule;
  }
  if (target.kind == Kind::text) {
    const FieldType type{.level = target.level, .kind = ValueKind::string, .dtype = DType::uint8};
    declare(target.scope, target.name, type, Shape());
    return rule;
  }
  const bool is_known = target.shape.has_value();
  Shape row_shape = is_known ? Shape(*target.shape) : Shape();
  if (!rule.is_atoms && (target.key == "stress" || target.key == "virial")) {
    rule.form = Form::transposed;
    if (row_shape == Shape{9}) row_shape = Shape{3, 3};
  } else if (!rule.is_atoms && !is_known) {
    rule.form = Form::one_number;
  }
  rule.are_scalars = is_known && row_shape.rank() == 0 && !rule.is_atoms;
  const bool are_booleans = is_exact_ && target.kind == Kind::flag;
  const DType dtype = are_booleans ? DType::boolean : stored_dtype(dtype_of(target), rule.are_scalars);
  const bool is_large = row_shape.numel() > kMaxSlotBytes / static_cast<int64_t>(item_bytes(dtype));
  const bool varies = !is_known || is_large || has_own_shape(row_shape.dims(), target.level, dtype);
  declare(target.scope, target.name, number_type(target.level, dtype),
          varies ? std::nullopt : std::optional(row_shape));
  return rule;
}

void FieldMap::ignore(Level level, const std::string& key) {
  places_.try_emplace({level, key}, rules_.size());
  keys_.emplace_back(level, key);
  rules_.emplace_back();
}

const FieldMap::Rule* FieldMap::find(Level level, std::string_view key, size_t& guess) const {
  if (guess < keys_.size() && keys_[guess].first == level && keys_[guess].second == key) return &rules_[guess++];
  const auto place = places_.find(std::pair(level, std::string(key)));
  if (place == places_.end()) return nullptr;
  guess = place->second + 1;
  return &rules_[place->second];
}

MoleculeBuilder::MoleculeBuilder(const FieldMap& map, std::span<std::byte> out, std::span<const double> positions,
                                 std::span<const uint8_t> numbers)
    : map_(map), numbers_(numbers), record_(out, positions, numbers), has_(map.schema().fields.size()) {}

void MoleculeBuilder::set_cell(std::span<const double, 9> cell) {
  if (map_.cell() < 0 || std::ranges::all_of(cell, [](double x) { return x == 0; })) return;
  if (!map_.keeps_nan() && std::ranges::all_of(cell, [](double x) { return std::isnan(x); })) return;
  record_.add(map_.cell(), Shape{3, 3}, std::as_bytes(cell));
}

void MoleculeBuilder::set_pbc(std::span<const uint8_t, 3> pbc) {
  record_.add(map_.pbc(), Shape{3}, std::as_bytes(pbc));
}

void MoleculeBuilder::add(const FieldMap::Rule& rule, std::string_view key, Array& array) {
  using Form = FieldMap::Form;
  if (array.kind == Kind::null && rule.kind != Kind::null) return;
  if (rule.has_rows) {
    const bool is_sound = !array.shape.empty() && array.shape[0] == std::ssize(numbers_);
    if (!is_sound) {
      throw FieldError(
          cat(rule.name, ": expected ", numbers_.size(), " rows, one an atom, got ", describe(array, array.shape)))
          .at_field(key);
    }
    array.shape.erase(array.shape.begin());
  }
  if (rule.are_masses && map_.has_momenta() && array.kind != Kind::text) masses_ = {&array, key};
  switch (rule.form) {
    case Form::left_out:
      return;
    case Form::label:
    case Form::momenta:
      return add_label(rule, key, array);
    case Form::text_label:
    case Form::values:
    case Form::transposed:
    case Form::one_number:
      break;
  }
  if (has_[static_cast<size_t>(rule.field)]) return;  // by another key, which comes first
  if (rule.of_atoms >= 0 && has_[static_cast<size_t>(rule.of_atoms)]) return;
  if (rule.kind == Kind::null && array.kind == Kind::null) {
    has_[static_cast<size_t>(rule.field)] = true;
    return record_.add(rule.field, Shape(), Bytes());
  }
  if (rule.kind == Kind::text) {
    if (array.kind != Kind::text || array.texts.size() != 1) return;
    has_[static_cast<size_t>(rule.field)] = true;
    return record_.add(rule.field, Shape(), as_bytes(array.texts[0]));
  }
  if (array.kind == Kind::text) return;  // strings of atoms
  array.widen(wider(rule.kind, array.kind));
  if (array.kind != rule.kind || array.shape.size() > Shape::kMaxRank) {
    throw CorruptFileError("expected values of the kind in the index, got others").at_field(key);
  }
  Shape row_shape(array.shape);
  const bool transposed = rule.form == Form::transposed && row_shape == Shape{9};
  if (transposed) row_shape = Shape{3, 3};
  if (rule.form == Form::one_number && row_shape.rank() == 0) row_shape = Shape{1};
  add_numbers(rule, array, row_shape, transposed);
}

// Copies numbers in the type of the field.
void MoleculeBuilder::add_numbers(const FieldMap::Rule& rule, const Array& array, const Shape& row_shape,
                                  bool transposed) {
  has_[static_cast<size_t>(rule.field)] = true;
  const DType dtype = map_.schema().fields[static_cast<size_t>(rule.field)].type.dtype;
  const size_t n = array.size();
  const auto from = [&](size_t i) { return transposed ? i % 3 * 3 + i / 3 : i; };
  std::byte* at = record_.add(rule.field, row_shape, n * item_bytes(dtype)).data();
  for (size_t i = 0; i < n; ++i) {
    const size_t k = from(i);
    if (dtype == DType::float64) {
      at = store_le(at, array.reals[k]);
    } else if (dtype == DType::float32) {
      at = store_le(at, static_cast<float>(array.reals[k]));
    } else {
      const int64_t value = array.kind == Kind::flag ? int64_t{array.flags[k]} : array.integers[k];
      at = dtype == DType::int64   ? store_le(at, value)
           : dtype == DType::int32 ? store_le(at, static_cast<int32_t>(value))
                                   : store_le(at, static_cast<uint8_t>(value));
    }
  }
}

// A label must be numbers of its shape; a stress may also be nine numbers by columns, or six in the order of Voigt.
void MoleculeBuilder::add_label(const FieldMap::Rule& rule, std::string_view key, Array& array) {
  const std::span<const int64_t> expected = find_builtin(rule.name)->row.dims();
  const std::vector<int64_t> shape = array.shape;
  const bool are_numbers = array.kind == Kind::integer || array.kind == Kind::real;
  const bool is_flat_stress = rule.name == "stress" && shape.size() == 1 && (shape[0] == 9 || shape[0] == 6);
  if (!are_numbers || !(is_flat_stress || std::ranges::equal(shape, expected))) {
    throw FieldError(cat(rule.name, ": expected numbers of shape ", Shape(expected), ", got ", describe(array, shape)))
        .at_field(key);
  }
  array.widen(Kind::real);
  if (is_flat_stress) {
    constexpr std::array<size_t, 9> kColumns = {0, 3, 6, 1, 4, 7, 2, 5, 8}, kVoigt = {0, 5, 4, 5, 1, 3, 4, 3, 2};
    std::array<double, 9> full;
    const auto& order = shape[0] == 9 ? kColumns : kVoigt;
    for (size_t i = 0; i < 9; ++i) full[i] = array.reals[order[i]];
    return put_label(rule.field, full, Shape{3, 3});
  }
  if (rule.form == FieldMap::Form::momenta) {
    momenta_ = {&array, key};
  } else if (rule.are_velocities && map_.has_momenta()) {
    velocities_ = {&array, key};
  } else {
    put_label(rule.field, array.reals, Shape(expected));
  }
}

// Some collections mark labels that were not computed by NaN.
void MoleculeBuilder::put_label(int32_t field, std::span<const double> values, const Shape& row_shape) {
  if (has_[static_cast<size_t>(field)]) return;
  has_[static_cast<size_t>(field)] = true;
  const auto is_nan = [](double value) { return std::isnan(value); };
  if (!map_.keeps_nan() && !values.empty() && is_nan(values[0]) && std::ranges::all_of(values, is_nan)) return;
  record_.add(field, row_shape, std::as_bytes(values));
}

std::vector<double> MoleculeBuilder::own_masses() const {
  std::vector<double> masses(numbers_.size());
  for (size_t i = 0; i < masses.size(); ++i) {
    masses[i] = numbers_[i] < map_.masses().size() ? map_.masses()[numbers_[i]] : std::nan("");
  }
  if (masses_.array != nullptr && masses_.array->shape.empty()) {
    Array own = *masses_.array;
    own.widen(Kind::real);
    for (size_t i = 0; i < masses.size(); ++i) {
      if (!std::isnan(own.reals[i])) masses[i] = own.reals[i];
    }
  }
  for (size_t i = 0; i < masses.size(); ++i) {
    if (std::isnan(masses[i])) {
      throw FieldError(cat("momenta: expected an element, got atomic number ", int{numbers_[i]}))
          .at_field(momenta_.key);
    }
  }
  return masses;
}

// Velocities are momenta divided by masses. If both are given and agree, the velocities are used, which are free of
// rounding; if not, they become a property of the atoms.
void MoleculeBuilder::put_velocities() {
  if (velocities_.array == nullptr && momenta_.array == nullptr) return;
  if (momenta_.array == nullptr) return put_label(map_.velocities(), velocities_.array->reals, Shape{3});
  const std::vector<double> masses = own_masses();
  std::vector<double> derived = momenta_.array->reals;
  for (size_t i = 0; i < derived.size(); ++i) derived[i] /= masses[i / 3];
  if (velocities_.array == nullptr) return put_label(map_.velocities(), derived, Shape{3});
  const std::vector<double>& given = velocities_.array->reals;
  if (std::ranges::equal(given, derived, is_near)) return put_label(map_.velocities(), given, Shape{3});
  put_label(map_.velocities(), derived, Shape{3});
  record_.add(map_.other_velocities(), Shape{3}, std::as_bytes(std::span(given)));
}

Bytes MoleculeBuilder::finish() {
  put_velocities();
  return record_.finish();
}

}  // namespace atompack::parsed
