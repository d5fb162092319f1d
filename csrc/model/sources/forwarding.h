// Views of another source that change the fields which it passes on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/molecule_source.h"

namespace atompack {

// Molecules whose fields have other names.

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

// Molecules whose labels count as missing if all stored numbers are NaN.

// View of another source, for files whose writers stored NaN for "not computed". Applies to labels and custom
// properties of floats, not to positions, features, or edge and triplet rows.
class NanIsMissingSource final : public MoleculeSource {
 public:
  explicit NanIsMissingSource(std::shared_ptr<const MoleculeSource> all) : all_(std::move(all)) {}

  int64_t size() const override { return all_->size(); }
  int64_t number(int64_t index) const override { return all_->number(index); }
  std::span<const MoleculeSchema> schemas() const override { return all_->schemas(); }
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
};

// Molecules of which only a chosen subset has forces, for training on part of the forces.

// The others lose their forces and their edge and triplet rows, which are neither planned for nor copied.
class ForceSubsetSource final : public MoleculeSource {
 public:
  // chosen: one flag per molecule; FieldError for another number of flags.
  ForceSubsetSource(std::shared_ptr<const MoleculeSource> all, std::vector<uint8_t> chosen);

  int64_t size() const override { return all_->size(); }
  int64_t number(int64_t index) const override { return all_->number(index); }
  std::span<const MoleculeSchema> schemas() const override { return all_->schemas(); }
  int32_t schema_of(int64_t index) const override { return all_->schema_of(index); }
  void prepare(std::span<const int64_t> indices) const override { all_->prepare(indices); }
  int64_t window() const override { return all_->window(); }
  void announce(std::span<const int64_t> indices) const override { all_->announce(indices); }
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override { all_->prefetch(index); }
  bool needs_scratch(int64_t index) const override { return all_->needs_scratch(index); }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override { return all_->decode(index, scratch); }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { all_->locate(error, index); }

 private:
  bool is_chosen(int64_t index) const { return chosen_[static_cast<size_t>(index)] != 0; }

  std::shared_ptr<const MoleculeSource> all_;
  std::vector<uint8_t> chosen_;
};

}  // namespace atompack
