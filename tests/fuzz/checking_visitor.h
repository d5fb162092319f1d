// Looks at every byte that a source hands out and holds it against what is said about it.
#pragma once

#include <functional>

#include "formats/atp/schema.h"
#include "targets.h"

namespace atompack::fuzz {

class CheckingVisitor final : public MoleculeVisitor {
 public:
  CheckingVisitor(const MoleculeSchema& schema, Bytes record) : schema_(schema), record_(record) {}

  void geometry(const Geometry& geometry) override {
    n_atoms_ = geometry.n_atoms;
    const auto n = static_cast<uint64_t>(n_atoms_);
    require(geometry.positions_dtype == schema_.positions, "positions are of the schema's type");
    require(geometry.positions.size() == 3 * n * item_bytes(geometry.positions_dtype), "positions are (n_atoms, 3)");
    require(geometry.numbers.size() == n, "atomic numbers are (n_atoms,)");
    touch(geometry.positions);
    touch(geometry.numbers);
  }

  void field(const FieldView& view, Bytes data) override {
    require(n_atoms_ >= 0, "geometry comes before the fields");
    require(view.scope != Scope::builtin || atp::is_builtin(view.key), "only known builtins are shown");
    if (view.declaration >= 0) check_declaration(view);
    if (view.fault != nullptr) {
      require(view.scope != Scope::builtin, "a damaged builtin is thrown");
      require(!std::string_view(view.fault->what()).empty(), "a fault says what it is");
      return;
    }
    touch(data);
    if (view.type.kind != ValueKind::numeric) return;
    const int64_t rows = view.type.level == Level::atom ? n_atoms_ : 1;
    const uint64_t elements = static_cast<uint64_t>(rows) * static_cast<uint64_t>(view.row_shape.numel());
    require(data.size() == elements * item_bytes(view.type.dtype), "data are as long as shape and type say");
  }

  uint64_t sum = 0;  // keeps the reads from being optimised away

 private:
  void check_declaration(const FieldView& view) const {
    require(static_cast<size_t>(view.declaration) < schema_.fields.size(), "a declaration is one of the schema's");
    const FieldDeclaration& declared = schema_.fields[static_cast<size_t>(view.declaration)];
    require(declared.scope == view.scope && declared.key == view.key, "a declaration is that of the field");
    require(declared.type == view.type, "a declared field is of its declared type");
    require(view.fault != nullptr || !declared.row_shape || *declared.row_shape == view.row_shape,
            "a declared shape is kept");
  }

  void touch(Bytes bytes) {
    const std::less_equal<const std::byte*> not_behind;
    const bool inside = bytes.empty() || (not_behind(record_.data(), bytes.data()) &&
                                          not_behind(bytes.data() + bytes.size(), record_.data() + record_.size()));
    require(inside, "views lie in the record");
    for (const std::byte byte : bytes) sum += static_cast<uint64_t>(byte);
  }

  const MoleculeSchema& schema_;
  Bytes record_;
  int64_t n_atoms_ = -1;
};

}  // namespace atompack::fuzz
