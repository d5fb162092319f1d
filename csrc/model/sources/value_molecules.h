// Dicts with positions and atomic numbers, as molecules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/molecule_source.h"
#include "model/value.h"

namespace atompack {

// For each key that no format knows: whether its values have rows for atoms.
using KeyLevels = std::map<std::string, bool, std::less<>>;

// Whether this is a dict with positions and atomic numbers.
bool is_molecule(const Value& value);

// Whether there is such a dict in the value.
bool has_molecules(const Value& value);

// Adds the keys of all molecules in these values: a key has rows for atoms if its arrays do in every molecule.
void learn_levels(std::span<const Value> values, KeyLevels& levels);

// A value as a tensor; its elements are in `data`, or have to be copied out of a strided or big-endian array.
struct StoredTensor {
  DType dtype = DType::uint8;
  std::span<const int64_t> shape = {};
  Bytes data = {};
  bool is_copied = false;
  size_t bytes = 0;
};

// Nothing for values that are no tensors of this library, and for tensors with a gradient. The data of a number of
// Python is a view of the value's own cell.
std::optional<StoredTensor> stored_tensor(const Value& value);

// The molecules of one batch. Their records are the dicts themselves, which must outlive this source. It has one
// schema, with a field for each key.
class ValueMolecules final : public MoleculeSource {
 public:
  // A value of one molecule.
  struct Entry {
    int32_t field;
    Value value;
    FieldType type = {};
    std::span<const int64_t> row_shape = {};
    StoredTensor tensor = {};
  };

  // Nothing where a value cannot be a field (None, a list), or a label has another type or shape than formats know.
  static std::unique_ptr<ValueMolecules> make(std::span<const Value> dicts, const KeyLevels& levels);

  int64_t size() const override { return std::ssize(molecules_); }
  std::span<const MoleculeSchema> schemas() const override { return {&schema_, 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override;
  bool needs_scratch(int64_t index) const override { return at(index).copied_bytes > 0; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { error.at_molecule(index); }

  std::span<const Entry> entries(int64_t index) const;
  DType positions_dtype(int64_t index) const { return at(index).positions.dtype; }

  // Whether all values have the types and row shapes that the schema declares.
  bool is_uniform() const { return uniform_; }

  // Whether a molecule has a single number for this field, which is a custom one.
  bool has_numbers(size_t field) const { return columns_[field].has_numbers; }

 private:
  struct Column {
    std::string_view key;
    int64_t last_molecule = -1;
    size_t last_entry = 0;
    bool known = false, same_shape = true, has_numbers = false;
  };
  struct Molecule {
    Value positions_value, numbers_value;
    size_t first_entry, last_entry;
    StoredTensor positions = {}, numbers = {};
    int64_t n_atoms = 0;
    size_t copied_bytes = 0, bytes = 0;
  };

  const Molecule& at(int64_t index) const { return molecules_[static_cast<size_t>(index)]; }
  bool gather(std::span<const Value> dicts);
  bool gather_keys(const Value& dict, int64_t molecule);
  size_t column_of(std::string_view key, size_t guess);
  bool settle_structure();
  void identify_columns(const KeyLevels& levels);
  bool every_value_has_rows(int32_t field) const;
  bool has_distinct_fields() const;
  bool settle(Entry& entry, int64_t n_atoms);

  std::vector<Molecule> molecules_;
  std::vector<Entry> entries_;  // by molecule
  std::vector<Column> columns_;
  MoleculeSchema schema_;
  bool uniform_ = true;
};

}  // namespace atompack
