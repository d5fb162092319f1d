#include "model/sources/forwarding.h"

#include <gtest/gtest.h>

#include "model/fake_source.h"

namespace atompack {
namespace {

using Name = RenamedSource::Name;

const Name kEnergy(Scope::builtin, "energy");

// Hands over its only declared field and one that no schema has.
class WithFields final : public MoleculeSource {
 public:
  int64_t size() const override { return 2; }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t index) const override { return static_cast<int32_t>(index); }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override { return {index, 70, 11}; }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }
  void visit(int64_t index, Bytes, MoleculeVisitor& visitor) const override {
    visitor.field({Scope::molecule_property, index == 0 ? "a" : "b", {}, Shape{}, 0}, {});
    visitor.field({Scope::molecule_property, "unlisted", {}, Shape{}, -1}, {});
  }
  void locate(DataError&, int64_t) const override {}

 private:
  std::vector<MoleculeSchema> schemas_{schema_with("a"), schema_with("b")};
};

class NameRecorder final : public MoleculeVisitor {
 public:
  void geometry(const Geometry&) override {}
  void field(const FieldView& view, Bytes) override { seen.emplace_back(view.scope, view.key); }
  std::vector<Name> seen;
};

TEST(RenamedSource, SchemasAndFieldsHaveTheNewNames) {
  const RenamedSource source(std::make_shared<WithFields>(), {{{Scope::molecule_property, "a"}, kEnergy}});
  EXPECT_EQ(source.schemas()[0].fields[0].key, "energy");
  EXPECT_EQ(source.schemas()[0].fields[0].scope, Scope::builtin);
  EXPECT_EQ(source.schemas()[1].fields[0].key, "b");
  NameRecorder first, second;
  source.visit(0, {}, first);
  source.visit(1, {}, second);
  const Name unlisted(Scope::molecule_property, "unlisted");
  EXPECT_EQ(first.seen, (std::vector<Name>{kEnergy, unlisted}));
  EXPECT_EQ(second.seen, (std::vector<Name>{{Scope::molecule_property, "b"}, unlisted}));
  EXPECT_EQ(source.size(), 2);
  EXPECT_EQ(source.extent(1).n_atoms, 1);
}

TEST(RenamedSource, NoTwoFieldsHaveOneName) {
  MoleculeSchema both = schema_with("a");
  both.fields.push_back({Scope::molecule_property, "b", {}, Shape{}});
  EXPECT_THROW(RenamedSource(part(1, {both}), {{{Scope::molecule_property, "a"}, {Scope::molecule_property, "b"}}}),
               FieldError);
}

}  // namespace
}  // namespace atompack
