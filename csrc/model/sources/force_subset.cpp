#include "model/sources/force_subset.h"

namespace atompack {
namespace {

class WithoutForces final : public MoleculeVisitor {
 public:
  explicit WithoutForces(MoleculeVisitor& visitor) : visitor_(visitor) {}

  void geometry(const Geometry& geometry) override { visitor_.geometry(geometry); }
  void field(const FieldView& field, Bytes data) override {
    const bool is_derivative = field.type.level == Level::edge || field.type.level == Level::triplet;
    const bool is_forces = field.scope == Scope::builtin && field.key == "forces";
    if (!is_derivative && !is_forces) visitor_.field(field, data);
  }

 private:
  MoleculeVisitor& visitor_;
};

}  // namespace

ForceSubsetSource::ForceSubsetSource(std::shared_ptr<const MoleculeSource> all, std::vector<uint8_t> chosen)
    : all_(std::move(all)), chosen_(std::move(chosen)) {
  if (std::ssize(chosen_) != all_->size()) {
    throw FieldError(
        cat("force subset: expected a flag for each of ", all_->size(), " molecules, got ", chosen_.size()));
  }
}

MoleculeExtent ForceSubsetSource::extent(int64_t index) const {
  MoleculeExtent extent = all_->extent(index);
  if (!is_chosen(index)) extent.n_edges = extent.n_triplets = 0;
  return extent;
}

void ForceSubsetSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  if (is_chosen(index)) return all_->visit(index, record, visitor);
  WithoutForces kept(visitor);
  all_->visit(index, record, kept);
}

}  // namespace atompack
