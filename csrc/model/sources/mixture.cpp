#include "model/sources/mixture.h"

#include <algorithm>

namespace atompack {
namespace {

constexpr std::string_view kKey = "source";
constexpr FieldType kType{Level::molecule, ValueKind::numeric, DType::int64};

}  // namespace

MixtureSource::MixtureSource(const std::vector<std::shared_ptr<const MoleculeSource>>& parts) : all_(parts) {
  for (const auto& part : parts) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  // At the end, so that the other declarations keep their numbers.
  for (MoleculeSchema schema : all_.schemas()) {
    schema.fields.push_back({Scope::builtin, std::string(kKey), kType, Shape{}});
    schemas_.push_back(std::move(schema));
  }
}

void MixtureSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  all_.visit(index, record, visitor);
  const int64_t part = std::ranges::upper_bound(ends_, index) - ends_.begin();
  const auto& fields = schemas_[static_cast<size_t>(all_.schema_of(index))].fields;
  const auto declaration = static_cast<int32_t>(std::ssize(fields)) - 1;
  visitor.field({Scope::builtin, kKey, kType, Shape{}, declaration}, std::as_bytes(std::span(&part, 1)));
}

}  // namespace atompack
