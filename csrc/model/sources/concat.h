// Several sources as one index space, in order, such as a folder of shards.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "model/molecule_source.h"
#include "model/sources/forwarding.h"

namespace atompack {

class ConcatSource final : public MoleculeSource {
 public:
  explicit ConcatSource(std::vector<std::shared_ptr<const MoleculeSource>> parts);

  int64_t size() const override { return starts_.back(); }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override;
  void prepare(std::span<const int64_t> indices) const override;
  // The largest window of the parts that were used last, since a folder may have thousands of parts.
  int64_t window() const override { return window_; }
  void announce(std::span<const int64_t> indices) const override;
  MoleculeExtent extent(int64_t index) const override;
  void prefetch(int64_t index) const override;
  bool needs_scratch(int64_t index) const override;
  Bytes decode(int64_t index, std::span<std::byte> scratch) const override;
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;
  void locate(DataError& error, int64_t index) const override;

 private:
  struct Place {
    size_t part;
    int64_t local;
  };
  Place place(int64_t index) const;
  int32_t number_of(const MoleculeSchema& schema);
  template <typename Use>
  void for_each_part(std::span<const int64_t> indices, const Use& use) const;

  std::vector<std::shared_ptr<const MoleculeSource>> parts_;
  std::vector<int64_t> starts_;                      // one more than parts
  std::vector<MoleculeSchema> schemas_;              // distinct schemas
  std::vector<std::vector<int32_t>> schema_number_;  // part, its own schema number -> number here
  mutable std::atomic<int64_t> window_{0};
};

// Like ConcatSource, with an additional field "source": the index of the part.
class MixtureSource final : public ForwardingSource {
 public:
  explicit MixtureSource(const std::vector<std::shared_ptr<const MoleculeSource>>& parts);

  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  void visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const override;

 private:
  std::vector<int64_t> ends_;            // end index of each part
  std::vector<MoleculeSchema> schemas_;  // those of the parts, each with the additional field at its end
};

}  // namespace atompack
