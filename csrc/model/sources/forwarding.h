// Views of another source that change the fields which it passes on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/molecule_source.h"

namespace atompack {

// Forwards everything but visit() to another source.
class ForwardingSource : public MoleculeSource {
 public:
  int64_t size() const override { return source_->size(); }
  int64_t number(int64_t index) const override { return source_->number(index); }
  std::span<const MoleculeSchema> schemas() const override { return source_->schemas(); }
  int32_t schema_of(int64_t index) const override { return source_->schema_of(index); }
  void prepare(std::span<const int64_t> indices) const override { source_->prepare(indices); }
  int64_t window() const override { return source_->window(); }
  void announce(std::span<const int64_t> indices) const override { source_->announce(indices); }
  MoleculeExtent extent(int64_t index) const override { return source_->extent(index); }
  void prefetch(int64_t index) const override { source_->prefetch(index); }
  bool needs_scratch(int64_t index) const override { return source_->needs_scratch(index); }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override { return source_->decode(index, scratch); }
  void locate(DataError& error, int64_t index) const override { source_->locate(error, index); }

 protected:
  explicit ForwardingSource(std::shared_ptr<const MoleculeSource> source) : source_(std::move(source)) {}

  const MoleculeSource& source() const { return *source_; }

 private:
  std::shared_ptr<const MoleculeSource> source_;
};

// Molecules whose fields have different names. Names that no schema declares stay.
class RenamedSource final : public ForwardingSource {
 public:
  using Name = std::pair<Scope, std::string>;
  using Names = std::vector<std::pair<Name, Name>>;  // stored, here

  // Throws FieldError if two fields of a schema would have one name.
  RenamedSource(std::shared_ptr<const MoleculeSource> all, const Names& names);

  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;

 private:
  std::vector<MoleculeSchema> schemas_;
};

// Molecules whose labels count as missing if all stored numbers are NaN, for files whose writers stored NaN for "not
// computed". Applies to labels and custom properties of floats, not to positions, features, or edge and triplet rows.
class NanIsMissingSource final : public ForwardingSource {
 public:
  explicit NanIsMissingSource(std::shared_ptr<const MoleculeSource> all) : ForwardingSource(std::move(all)) {}

  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
};

// Molecules of which only a chosen subset has forces, for training on part of the forces. The others lose their forces
// and their edge and triplet rows, which are neither planned for nor copied.
class ForceSubsetSource final : public ForwardingSource {
 public:
  // chosen: one flag per molecule; FieldError for a different number of flags.
  ForceSubsetSource(std::shared_ptr<const MoleculeSource> all, std::vector<uint8_t> chosen);

  MoleculeExtent extent(int64_t index) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;

 private:
  bool is_chosen(int64_t index) const { return chosen_[static_cast<size_t>(index)] != 0; }

  std::vector<uint8_t> chosen_;
};

}  // namespace atompack
