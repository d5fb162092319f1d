// Keeps copies of all that a source hands out.
#pragma once

#include <string>
#include <vector>

#include "model/molecule_source.h"

namespace atompack::test {

struct SeenField {
  Scope scope;
  std::string key;
  FieldType type;
  Shape row_shape;
  std::string data;
  int32_t declaration;
  std::string fault;
};

class CollectingVisitor final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override {
    n_atoms = geometry.n_atoms;
    positions_dtype = geometry.positions_dtype;
    positions = as_text(geometry.positions);
    numbers = as_text(geometry.numbers);
  }
  void field(const FieldView& view, Bytes data) override {
    fields.push_back({view.scope, std::string(view.key), view.type, {}, {}, view.declaration, {}});
    if (view.fault != nullptr) {
      fields.back().fault = view.fault->what();
    } else {
      fields.back().row_shape = view.row_shape;
      fields.back().data = as_text(data);
    }
  }

  int64_t n_atoms = -1;
  DType positions_dtype = DType::boolean;
  std::string positions, numbers;
  std::vector<SeenField> fields;
};

}  // namespace atompack::test
