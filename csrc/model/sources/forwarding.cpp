#include "model/sources/forwarding.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace atompack {
namespace {

// Passes the geometry on; what it does with fields is up to its subclass.
class ForwardingVisitor : public MoleculeVisitor {
 public:
  explicit ForwardingVisitor(MoleculeVisitor& visitor) : visitor_(visitor) {}

  void geometry(const Geometry& geometry) final { visitor_.geometry(geometry); }

 protected:
  void pass(const FieldView& field, Bytes data) { visitor_.field(field, data); }

 private:
  MoleculeVisitor& visitor_;
};

class FieldRenamer final : public ForwardingVisitor {
 public:
  FieldRenamer(MoleculeVisitor& visitor, const MoleculeSchema& schema) : ForwardingVisitor(visitor), schema_(schema) {}

  void field(const FieldView& field, Bytes data) override {
    if (field.declaration < 0) return pass(field, data);
    FieldView renamed = field;
    const FieldDeclaration& declared = schema_.fields[static_cast<size_t>(field.declaration)];
    renamed.scope = declared.scope;
    renamed.key = declared.key;
    pass(renamed, data);
  }

 private:
  const MoleculeSchema& schema_;
};

template <typename T>
bool all_nan(Bytes data) {
  for (size_t at = 0; at < data.size(); at += sizeof(T)) {
    if (!std::isnan(load_le<T>(data.data() + at))) return false;
  }
  return true;
}

// An empty value (forces of no atoms) is present.
bool is_nan_throughout(const FieldView& field, Bytes data) {
  if (field.fault != nullptr || data.empty() || field.type.kind != ValueKind::numeric) return false;
  if (field.type.dtype == DType::float64) return all_nan<double>(data);
  return field.type.dtype == DType::float32 && all_nan<float>(data);
}

bool is_label(const FieldView& field) {
  if (field.scope != Scope::builtin) return true;
  const bool has_atoms_or_molecules = field.type.level == Level::atom || field.type.level == Level::molecule;
  return has_atoms_or_molecules && field.key != "features";
}

class WithoutNan final : public ForwardingVisitor {
 public:
  using ForwardingVisitor::ForwardingVisitor;

  void field(const FieldView& field, Bytes data) override {
    if (!is_label(field) || !is_nan_throughout(field, data)) pass(field, data);
  }
};

class WithoutForces final : public ForwardingVisitor {
 public:
  using ForwardingVisitor::ForwardingVisitor;

  void field(const FieldView& field, Bytes data) override {
    const bool is_derivative = field.type.level == Level::edge || field.type.level == Level::triplet;
    const bool is_forces = field.scope == Scope::builtin && field.key == "forces";
    if (!is_derivative && !is_forces) pass(field, data);
  }
};

}  // namespace

RenamedSource::RenamedSource(std::shared_ptr<const MoleculeSource> all, const Names& names)
    : ForwardingSource(std::move(all)) {
  schemas_.assign(source().schemas().begin(), source().schemas().end());
  for (MoleculeSchema& schema : schemas_) {
    std::set<Name> known;
    for (FieldDeclaration& field : schema.fields) {
      const Name stored(field.scope, field.key);
      const auto found = std::ranges::find(names, stored, &Names::value_type::first);
      if (found != names.end()) std::tie(field.scope, field.key) = found->second;
      if (!known.emplace(field.scope, field.key).second) {
        throw FieldError(cat("key_map: two fields would be '", field.key, "'"));
      }
    }
  }
}

void RenamedSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  FieldRenamer renamer(visitor, schemas_[static_cast<size_t>(source().schema_of(index))]);
  source().visit(index, record, renamer);
}

void NanIsMissingSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  WithoutNan kept(visitor);
  source().visit(index, record, kept);
}

ForceSubsetSource::ForceSubsetSource(std::shared_ptr<const MoleculeSource> all, std::vector<uint8_t> chosen)
    : ForwardingSource(std::move(all)), chosen_(std::move(chosen)) {
  if (std::ssize(chosen_) != source().size()) {
    throw FieldError(
        cat("force subset: expected a flag for each of ", source().size(), " molecules, got ", chosen_.size()));
  }
}

MoleculeExtent ForceSubsetSource::extent(int64_t index) const {
  MoleculeExtent extent = source().extent(index);
  if (!is_chosen(index)) extent.n_edges = extent.n_triplets = 0;
  return extent;
}

void ForceSubsetSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  if (is_chosen(index)) return source().visit(index, record, visitor);
  WithoutForces kept(visitor);
  source().visit(index, record, kept);
}

}  // namespace atompack
