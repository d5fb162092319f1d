// Fields that the keys of a source become, and the building of records by them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/parsed/array.h"
#include "formats/parsed/record.h"
#include "formats/parsed/survey.h"
#include "model/molecule_source.h"

namespace atompack::parsed {

// Field that a key denotes; kind and shape are those of the survey.
struct Target {
  Level level;
  std::string key;
  Scope scope;
  std::string name;
  Kind kind;
  std::optional<std::vector<int64_t>> shape;
  bool is_narrow = false;     // 32 bits hold all values
  bool from_momenta = false;  // velocities, as momenta divided by masses
};

// Masses of the elements in dalton by atomic number; NaN: no element. Empty: not known.
using Masses = std::vector<double>;

// Immutable: thread-safe.
class FieldMap {
 public:
  enum class Form : uint8_t { left_out, values, transposed, one_number, label, text_label, momenta };

  struct Rule {
    Form form = Form::left_out;
    Kind kind = Kind::real;  // values are converted to it if theirs is narrower
    bool is_atoms = false;
    bool are_scalars = false;     // of molecules, which have one width
    int32_t field = -1;           // number in the schema
    int32_t of_atoms = -1;        // field of the atoms with the same key, which replaces this one
    std::string name;             // of the field
    bool are_masses = false;      // also used as the masses of the atoms
    bool are_velocities = false;  // may also be given as momenta
    bool has_rows = false;        // a value of the molecule with a row for each atom
  };

  // `has_cells`: any molecule has a cell. `keeps_nan`: labels that are NaN throughout are not missing.
  // `is_exact`: values stay that .atp files have no place for: flags are booleans, and a molecule may have a value
  // under a key of its atoms. Throws FieldError if a target is not a field.
  FieldMap(const std::vector<Target>& targets, bool has_cells, Masses masses, bool keeps_nan = false,
           bool is_exact = false);

  const MoleculeSchema& schema() const { return schema_; }
  // Omits the values of a key.
  void ignore(Level level, const std::string& key);
  // Returns nullptr for a key that is not mapped. `guess` is the position of the next key in most molecules.
  const Rule* find(Level level, std::string_view key, size_t& guess) const;

  int32_t cell() const { return cell_; }
  int32_t pbc() const { return pbc_; }
  int32_t velocities() const { return velocities_; }
  int32_t other_velocities() const { return other_velocities_; }
  bool has_momenta() const { return has_momenta_; }
  bool keeps_nan() const { return keeps_nan_; }
  const Masses& masses() const { return masses_; }

 private:
  Rule rule_of(const Target& target);
  void declare(Scope scope, const std::string& key, const FieldType& type, std::optional<Shape> row_shape);
  int32_t number_of(Scope scope, const std::string& key) const;

  MoleculeSchema schema_;
  std::map<std::pair<Scope, std::string>, int32_t> numbers_;  // positions in the schema
  std::vector<std::pair<Level, std::string>> keys_;
  std::vector<Rule> rules_;
  std::map<std::pair<Level, std::string>, size_t, std::less<>> places_;
  int32_t cell_ = -1, pbc_ = -1, velocities_ = -1, other_velocities_ = -1;
  bool has_momenta_ = false;
  Masses masses_;
  bool keeps_nan_, is_exact_;
};

// Builds the record of one molecule: rows of atoms first, then values. Labels that are NaN throughout are missing.
// Arrays are kept as views until finish(). Errors name the key.
class MoleculeBuilder {
 public:
  MoleculeBuilder(const FieldMap& map, std::span<std::byte> out, std::span<const double> positions,
                  std::span<const uint8_t> numbers);

  // A cell of zeros means none.
  void set_cell(std::span<const double, 9> cell);
  void set_pbc(std::span<const uint8_t, 3> pbc);
  // Values of a molecule of a rule for strings have been converted to strings, except where labels must be numbers.
  void add(const FieldMap::Rule& rule, std::string_view key, Array& array);

  Bytes finish();

 private:
  struct Kept {
    const Array* array = nullptr;
    std::string_view key;
  };

  void add_label(const FieldMap::Rule& rule, std::string_view key, Array& array);
  void add_numbers(const FieldMap::Rule& rule, const Array& array, const Shape& row_shape, bool transposed);
  void put_label(int32_t field, std::span<const double> values, const Shape& row_shape);
  void put_velocities();
  std::vector<double> own_masses() const;

  const FieldMap& map_;
  std::span<const uint8_t> numbers_;
  RecordWriter record_;
  std::vector<bool> has_;  // by field
  Kept momenta_, velocities_, masses_;
};

}  // namespace atompack::parsed
