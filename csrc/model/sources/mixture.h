// Several sources as one index space, with the source of each molecule as a field.
#pragma once

#include <memory>
#include <vector>

#include "model/sources/concat.h"

namespace atompack {

// Like ConcatSource, with an additional field "source": the index of the part.
class MixtureSource final : public MoleculeSource {
 public:
  explicit MixtureSource(const std::vector<std::shared_ptr<const MoleculeSource>>& parts);

  int64_t size() const override { return all_.size(); }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override { return all_.schema_of(index); }
  void prepare(std::span<const int64_t> indices) const override { all_.prepare(indices); }
  int64_t window() const override { return all_.window(); }
  void announce(std::span<const int64_t> indices) const override { all_.announce(indices); }
  MoleculeExtent extent(int64_t index) const override { return all_.extent(index); }
  void prefetch(int64_t index) const override { all_.prefetch(index); }
  bool needs_scratch(int64_t index) const override { return all_.needs_scratch(index); }
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override { return all_.decode(index, scratch); }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override { all_.locate(error, index); }

 private:
  ConcatSource all_;
  std::vector<int64_t> ends_;            // end index of each part
  std::vector<MoleculeSchema> schemas_;  // those of all_, each with the additional field at its end
};

}  // namespace atompack
