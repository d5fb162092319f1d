// Builder of the block of memory of a ResidentSource.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "model/sources/resident.h"
#include "plan/request.h"

namespace atompack::collate {

// Copies molecules into a block: measure() all of them, allocate, then copy() all of them.
class ResidentBuilder {
 public:
  // `numbers` in the source, in any order and with repeats. For each molecule, the fields
  // that any request selects are kept. `path` is for errors.
  ResidentBuilder(std::shared_ptr<const MoleculeSource> source, std::vector<int64_t> numbers,
                  std::vector<std::shared_ptr<const plan::Request>> requests, std::string path);

  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }

  // Reads the molecules [first, last) to learn the sizes and fields of their records. Throws CorruptFileError,
  // including for damaged values.
  void measure(int64_t first, int64_t last);

  // Returns the size of the block, once all are measured.
  uint64_t bytes() const;

  // Reads the molecules [first, last) again, into the block. Throws CorruptFileError if a record has changed since.
  void copy(int64_t first, int64_t last, std::span<std::byte> memory);

  std::shared_ptr<const ResidentTables> tables() const { return tables_; }

 private:
  class Recorder;

  // schema, declaration, scope, key, level, kind, dtype, is_atom_index, has a fixed shape
  using FieldKey = std::tuple<int32_t, int32_t, Scope, std::string, Level, ValueKind, DType, bool, bool>;

  bool is_selected(int32_t schema, const FieldView& view) const;
  bool has_fixed_shape(int32_t schema, const FieldView& view) const;
  int32_t add_field(int32_t schema, const FieldView& view);
  uint32_t add_form(const ResidentForm& form);
  template <typename Step>
  void for_each_molecule(int64_t first, int64_t last, const Step& step);

  std::shared_ptr<const MoleculeSource> source_;
  std::vector<int64_t> numbers_;
  std::vector<std::shared_ptr<const plan::Request>> requests_;
  std::vector<std::vector<bool>> selected_;  // by schema and declaration
  std::vector<ResidentEntry> entries_;       // offset: bytes of the record
  std::shared_ptr<ResidentTables> tables_;
  std::map<FieldKey, int32_t> fields_;
  std::map<ResidentForm, uint32_t> forms_;
  std::mutex mutex_;  // of the tables
};

// Returns the numbers of atoms, stored edges and stored triplets of molecules: (molecules, 3), int64.
at::Tensor count_stored_rows(const MoleculeSource& source, std::span<const int64_t> numbers);

}  // namespace atompack::collate
