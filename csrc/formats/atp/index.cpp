#include "formats/atp/index.h"

#include <map>

namespace atompack::atp {
namespace {

// The row shape of an atom-level tensor is left open, as in stored schemas.
std::optional<Shape> fixed_shape(const FieldView& view) {
  const bool scalar_or_vector = view.row_shape == Shape{} || view.row_shape == Shape{3};
  return view.type.level == Level::molecule || scalar_or_vector ? std::optional(view.row_shape) : std::nullopt;
}

class FieldCollector final : public MoleculeVisitor {
 public:
  void geometry(const Geometry&) override {}

  void field(const FieldView& view, Bytes) override {
    if (view.fault != nullptr) return;
    auto [known, is_new] = found_.try_emplace({view.scope, std::string(view.key)});
    FieldDeclaration& declaration = known->second;
    if (is_new) {
      declaration = {view.scope, std::string(view.key), view.type, fixed_shape(view)};
    } else if (declaration.row_shape && *declaration.row_shape != view.row_shape) {
      declaration.row_shape = std::nullopt;
    }
  }

  std::vector<FieldDeclaration> declarations() const {
    std::vector<FieldDeclaration> all;
    for (const auto& [place, declaration] : found_) all.push_back(declaration);
    return all;
  }

 private:
  std::map<std::pair<Scope, std::string>, FieldDeclaration> found_;
};

}  // namespace

std::vector<FieldDeclaration> scan_fields(const MoleculeSource& source) {
  FieldCollector collector;
  std::vector<std::byte> scratch;
  for (int64_t i = 0; i < source.size(); ++i) {
    try {
      source.visit(i, decode(source, i, source.extent(i), scratch), collector);
    } catch (const DataError&) {
      continue;  // reported when that molecule is read
    }
  }
  return collector.declarations();
}

}  // namespace atompack::atp
