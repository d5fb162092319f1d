// Dicts with positions and atomic numbers, read as molecules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/fields.h"
#include "model/molecule_source.h"
#include "model/value.h"

namespace atompack {

// For each custom key, true if its values have one row per atom.
using KeyLevels = std::map<std::string, bool, std::less<>>;

// True for a dict with positions and atomic numbers.
bool is_molecule(const Value& value);

// True if there is such a dict anywhere in the value.
bool has_molecules(const Value& value);

// Adds the keys of all molecules in these values: a key is per atom if its arrays have one row per atom in every
// molecule.
void learn_levels(std::span<const Value> values, KeyLevels& levels);

// A value as a tensor; its elements are in `data`, or must be copied out of a strided or big-endian array.
struct StoredTensor {
  DType dtype = DType::uint8;
  std::span<const int64_t> shape = {};
  Bytes data = {};
  bool is_copied = false;
  size_t bytes = 0;
};

// Returns nullopt for values that are not supported tensors, and for tensors with a gradient. The data of a Python
// number is a view of the value's own cell.
std::optional<StoredTensor> stored_tensor(const Value& value);

// The molecules of one batch. Their records are the dicts themselves, which must outlive this source. It has one
// schema, with a field for each key.
class ValueMolecules final : public MoleculeSource {
 public:
  // One value of one molecule.
  struct Entry {
    int32_t field;
    Value value;
    FieldType type = {};
    std::span<const int64_t> row_shape = {};
    StoredTensor tensor = {};
  };

  // Returns nullptr if a value cannot be a field (None, a list), or a label has a type or shape that formats do not
  // support.
  static std::unique_ptr<ValueMolecules> make(std::span<const Value> dicts, const KeyLevels& levels);

  int64_t size() const override { return std::ssize(starts_) - 1; }
  std::span<const MoleculeSchema> schemas() const override { return {&schema_, 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override;
  bool needs_scratch(int64_t index) const override { return any_copied_ && extent(index).decoded_bytes > 0; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { error.at_molecule(index); }

  std::span<const Entry> entries(int64_t index) const { return all(index).subspan(kStructure); }
  DType positions_dtype(int64_t index) const { return all(index)[0].tensor.dtype; }

  // True if all values have the types and row shapes that the schema declares.
  bool is_uniform() const { return uniform_; }

 private:
  static constexpr size_t kStructure = 2;  // first entries of each molecule: positions, atomic numbers

  std::span<const Entry> all(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    return std::span(entries_).subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }
  int64_t n_atoms(int64_t index) const { return all(index)[1].tensor.shape[0]; }
  bool gather(const Value& dict);
  bool set_structure(std::span<Entry> structure) const;
  void identify_keys(const KeyLevels& levels);
  bool are_values_of(const BuiltinField& label, int32_t field) const;
  bool every_value_has_rows(int32_t field) const;
  bool set_value(Entry& entry, int64_t n_atoms);

  std::vector<Entry> entries_;     // by molecule
  std::vector<size_t> starts_{0};  // first entry of each molecule, and the end
  std::vector<std::string_view> keys_;
  std::vector<bool> known_, ragged_;  // per field
  MoleculeSchema schema_;
  bool uniform_ = true, any_copied_ = false;
};

}  // namespace atompack
