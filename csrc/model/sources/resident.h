// Molecules of any source, decoded into one block of memory, from which batches are made without files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "model/molecule_source.h"

namespace atompack {

// A field of a record. Without a row shape, each record has a shape of its own before the values.
struct ResidentField {
  int32_t schema = 0;
  Scope scope = Scope::builtin;
  std::string key;
  FieldType type;
  std::optional<std::vector<int64_t>> row_shape;
  int32_t declaration = -1;
  bool operator==(const ResidentField&) const = default;
};

// A record: (n_atoms, 3) positions, (n_atoms,) numbers, then the values of these fields, without gaps.
struct ResidentForm {
  int32_t schema = 0;
  DType positions = DType::float32;
  DType numbers = DType::uint8;
  std::vector<int32_t> fields;  // numbers in ResidentTables::fields
  auto operator<=>(const ResidentForm&) const = default;
};

// Everything but the block of memory.
struct ResidentTables {
  std::vector<MoleculeSchema> schemas;
  std::vector<ResidentField> fields;
  std::vector<ResidentForm> forms;
  std::string path;  // for errors
};

// One molecule; at the start of the block there is one for each, and another at the end.
struct ResidentEntry {
  uint64_t offset = 0;  // of the record in the block
  int64_t number = 0;   // in the source
  uint32_t n_atoms = 0, form = 0, n_edges = 0, n_triplets = 0;
};
static_assert(sizeof(ResidentEntry) == 32);

class ResidentSource final : public MoleculeSource {
 public:
  // `owner` keeps `memory` alive. Throws CorruptFileError if the entries do not fit the block.
  ResidentSource(std::shared_ptr<const ResidentTables> tables, std::span<const std::byte> memory, int64_t n_molecules,
                 std::shared_ptr<const void> owner);

  const std::shared_ptr<const ResidentTables>& tables() const { return tables_; }

  int64_t size() const override { return size_; }
  int64_t number(int64_t index) const override { return entry(index).number; }
  std::span<const MoleculeSchema> schemas() const override { return tables_->schemas; }
  int32_t schema_of(int64_t index) const override { return form(index).schema; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override;
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t index, std::span<std::byte>) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override {
    error.in_file(tables_->path).at_molecule(number(index));
  }

 private:
  const ResidentEntry& entry(int64_t index) const { return entries_[static_cast<size_t>(index)]; }
  const ResidentForm& form(int64_t index) const { return tables_->forms[entry(index).form]; }

  std::shared_ptr<const ResidentTables> tables_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> memory_;
  std::span<const ResidentEntry> entries_;
  int64_t size_;
  std::vector<FieldView> views_;  // of each field, with the row shape if it is fixed
};

}  // namespace atompack
