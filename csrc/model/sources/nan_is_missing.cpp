#include "model/sources/nan_is_missing.h"

#include <cmath>

namespace atompack {
namespace {

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

class WithoutNan final : public MoleculeVisitor {
 public:
  explicit WithoutNan(MoleculeVisitor& visitor) : visitor_(visitor) {}

  void geometry(const Geometry& geometry) override { visitor_.geometry(geometry); }
  void field(const FieldView& field, Bytes data) override {
    if (!is_label(field) || !is_nan_throughout(field, data)) visitor_.field(field, data);
  }

 private:
  MoleculeVisitor& visitor_;
};

}  // namespace

void NanIsMissingSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  WithoutNan kept(visitor);
  all_->visit(index, record, kept);
}

}  // namespace atompack
