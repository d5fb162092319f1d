// Rows of an ASE database in LMDB as molecules, decompressed and parsed when they are read.
#pragma once

#include <memory>
#include <string>

#include "formats/lmdb/page_file.h"
#include "formats/parsed/field_map.h"
#include "formats/parsed/index.h"
#include "model/molecule_source.h"

namespace atompack::lmdb {

// Values are those that a conversion to .atp gives. Thread-safe: immutable after construction.
class RowSource final : public MoleculeSource {
 public:
  // Throws IoError (ESTALE) if the file has not the size and the time of `version`.
  RowSource(const io::Location& location, const io::FileVersion& version, std::shared_ptr<const parsed::Index> index,
            std::shared_ptr<const parsed::FieldMap> fields, io::Access access, bool populate);

  int64_t size() const override { return static_cast<int64_t>(index_->entries.size()); }
  std::span<const MoleculeSchema> schemas() const override { return {&fields_->schema(), 1}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t> indices) const override;
  int64_t window() const override { return pages_->bytes().window(); }
  void announce(std::span<const int64_t> indices) const override;
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override { pages_->bytes().prefetch(entry(index).place, entry(index).bytes); }
  bool needs_scratch(int64_t) const override { return true; }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { error.in_file(path_).at_molecule(index); }

 private:
  const parsed::IndexEntry& entry(int64_t index) const { return index_->entries[static_cast<size_t>(index)]; }
  Bytes parse(int64_t index, std::span<std::byte> scratch) const;

  std::string path_;
  std::shared_ptr<const parsed::Index> index_;
  std::shared_ptr<const parsed::FieldMap> fields_;
  std::unique_ptr<const PageFile> pages_;
};

}  // namespace atompack::lmdb
