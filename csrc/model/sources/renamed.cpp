#include "model/sources/renamed.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace atompack {
namespace {

class FieldRenamer final : public MoleculeVisitor {
 public:
  FieldRenamer(MoleculeVisitor& visitor, const MoleculeSchema& schema) : visitor_(visitor), schema_(schema) {}

  void geometry(const Geometry& geometry) override { visitor_.geometry(geometry); }
  void field(const FieldView& field, Bytes data) override {
    if (field.declaration < 0) return visitor_.field(field, data);
    FieldView renamed = field;
    const FieldDeclaration& declared = schema_.fields[static_cast<size_t>(field.declaration)];
    renamed.scope = declared.scope;
    renamed.key = declared.key;
    visitor_.field(renamed, data);
  }

 private:
  MoleculeVisitor& visitor_;
  const MoleculeSchema& schema_;
};

}  // namespace

RenamedSource::RenamedSource(std::shared_ptr<const MoleculeSource> all, const Names& names) : all_(std::move(all)) {
  schemas_.assign(all_->schemas().begin(), all_->schemas().end());
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
  FieldRenamer renamer(visitor, schemas_[static_cast<size_t>(all_->schema_of(index))]);
  all_->visit(index, record, renamer);
}

}  // namespace atompack
