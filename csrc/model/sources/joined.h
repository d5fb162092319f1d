// Molecules of one source with additional fields of another for the same indices: labels from a file of molecules,
// features from a cache.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "model/molecule_source.h"

namespace atompack {

// Values of a molecule that distinguish it from others.
struct Likeness {
  Geometry geometry{};
  std::optional<std::array<double, 9>> cell = {};
  std::optional<double> energy = {};
};

// Fields that were computed from molecules, and what these are recognized by.
class EntrySource : public MoleculeSource {
 public:
  // Throws FieldError if the entry was made of another molecule.
  virtual void check_likeness(int64_t entry, const Likeness& likeness) const = 0;
};

class JoinedSource final : public MoleculeSource {
 public:
  // Only the fields of `extra` are used: its molecules need no scratch, and it may skip geometry(). Throws FieldError
  // if the sizes differ.
  JoinedSource(std::shared_ptr<const MoleculeSource> molecules, std::shared_ptr<const MoleculeSource> extra);

  int64_t size() const override { return molecules_->size(); }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override;
  void prepare(std::span<const int64_t> indices) const override;
  int64_t window() const override { return std::max(molecules_->window(), extra_->window()); }
  void announce(std::span<const int64_t> indices) const override {
    molecules_->announce(indices);
    extra_->announce(indices);
  }
  // Throws FieldError if the atom counts differ.
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override;
  bool needs_scratch(int64_t index) const override { return molecules_->needs_scratch(index); }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  // The first time, throws FieldError if `extra` is an EntrySource and was made of another molecule.
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { molecules_->locate(error, index); }

 private:
  void visit_and_check(int64_t index, Bytes record, MoleculeVisitor& visitor) const;

  std::shared_ptr<const MoleculeSource> molecules_, extra_;
  const EntrySource* entries_;  // is `extra_`, or null
  // Molecules that were compared: to compare all on opening would read all data.
  mutable std::vector<std::atomic<bool>> is_checked_;
  std::vector<MoleculeSchema> schemas_;  // every pair of schemas; the fields of `extra` come last
};

}  // namespace atompack
