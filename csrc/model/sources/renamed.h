// Molecules whose fields have other names.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/molecule_source.h"

namespace atompack {

// View of another source. Names that no schema declares stay.
class RenamedSource final : public MoleculeSource {
 public:
  using Name = std::pair<Scope, std::string>;
  using Names = std::vector<std::pair<Name, Name>>;  // stored, here

  // Throws FieldError if two fields of a schema would have one name.
  RenamedSource(std::shared_ptr<const MoleculeSource> all, const Names& names);

  int64_t size() const override { return all_->size(); }
  int64_t number(int64_t index) const override { return all_->number(index); }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override { return all_->schema_of(index); }
  void prepare(std::span<const int64_t> indices) const override { all_->prepare(indices); }
  int64_t window() const override { return all_->window(); }
  void announce(std::span<const int64_t> indices) const override { all_->announce(indices); }
  MoleculeExtent extent(int64_t index) const override { return all_->extent(index); }
  void prefetch(int64_t index) const override { all_->prefetch(index); }
  bool needs_scratch(int64_t index) const override { return all_->needs_scratch(index); }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override { return all_->decode(index, scratch); }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { all_->locate(error, index); }

 private:
  std::shared_ptr<const MoleculeSource> all_;
  std::vector<MoleculeSchema> schemas_;
};

}  // namespace atompack
