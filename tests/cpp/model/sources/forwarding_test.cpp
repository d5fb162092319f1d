#include "model/sources/forwarding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "message_of.h"
#include "model/fake_source.h"

namespace atompack {
namespace {

// A field of each kind, and a property that is called forces too.
class WithDerivatives final : public MoleculeSource {
 public:
  int64_t size() const override { return 2; }
  std::span<const MoleculeSchema> schemas() const override { return {}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t index) const override { return {index + 1, 70, 11, 3, 5}; }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }
  void visit(int64_t index, Bytes, MoleculeVisitor& visitor) const override {
    visitor.geometry({index + 1, DType::float64, {}, {}});
    hand_over(Scope::builtin, "forces", Level::atom, visitor);
    hand_over(Scope::builtin, "features", Level::atom, visitor);
    hand_over(Scope::atom_property, "forces", Level::atom, visitor);
    hand_over(Scope::builtin, "energy", Level::molecule, visitor);
    hand_over(Scope::builtin, "radial_center_idx", Level::edge, visitor);
    hand_over(Scope::builtin, "angular_center_idx", Level::triplet, visitor);
  }
  void locate(DataError&, int64_t) const override {}

 private:
  static void hand_over(Scope scope, std::string_view key, Level level, MoleculeVisitor& visitor) {
    visitor.field({scope, key, {level}, Shape{}}, {});
  }
};

class KeyRecorder final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms = geometry.n_atoms; }
  void field(const FieldView& view, Bytes) override {
    keys.push_back(cat(view.scope == Scope::builtin ? "" : "custom ", view.key));
  }
  int64_t n_atoms = 0;
  std::vector<std::string> keys;
};

TEST(ForceSubsetSource, OthersHaveNoForcesAndNoDerivatives) {
  const ForceSubsetSource source(std::make_shared<WithDerivatives>(), {1, 0});
  KeyRecorder chosen, other;
  source.visit(0, {}, chosen);
  source.visit(1, {}, other);
  EXPECT_EQ(chosen.keys.size(), 6U);
  EXPECT_EQ(other.keys, (std::vector<std::string>{"features", "custom forces", "energy"}));
  EXPECT_EQ(other.n_atoms, 2);
}

TEST(ForceSubsetSource, OthersTakeNoRows) {
  const ForceSubsetSource source(std::make_shared<WithDerivatives>(), {1, 0});
  EXPECT_EQ(source.extent(0).n_edges, 3);
  EXPECT_EQ(source.extent(0).n_triplets, 5);
  EXPECT_EQ(source.extent(1).n_edges, 0);
  EXPECT_EQ(source.extent(1).n_triplets, 0);
  EXPECT_EQ(source.extent(1).n_atoms, 2);
  EXPECT_EQ(source.extent(1).decoded_bytes, 70);
}

TEST(ForceSubsetSource, OneFlagForEachMolecule) {
  EXPECT_EQ(test::message_of<FieldError>([] { ForceSubsetSource(part(3), {1, 0}); }),
            "force subset: expected a flag for each of 3 molecules, got 2");
}

const double kNan = std::nan("");

// Hands over one field of each kind.
class WithNan final : public MoleculeSource {
 public:
  int64_t size() const override { return 1; }
  std::span<const MoleculeSchema> schemas() const override { return {}; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t>) const override {}
  MoleculeExtent extent(int64_t) const override { return {2, 70, 11, 3, 5}; }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }
  void visit(int64_t, Bytes, MoleculeVisitor& visitor) const override {
    visitor.geometry({2, DType::float64, {}, {}});
    hand_over("energy", Level::molecule, std::vector<double>{kNan}, visitor);
    hand_over("forces", Level::atom, std::vector<double>{kNan, 1, kNan, kNan, kNan, kNan}, visitor);
    hand_over("velocities", Level::atom, std::vector<float>(6, std::nanf("")), visitor);
    hand_over("charges", Level::atom, std::vector<double>{}, visitor);
    hand_over("stress", Level::molecule, std::vector<double>(9, INFINITY), visitor);
    hand_over("features", Level::atom, std::vector<double>{kNan, kNan}, visitor);
    hand_over("radial_dG_drij", Level::edge, std::vector<double>{kNan}, visitor);
    const std::vector<double> gap{kNan};
    visitor.field({Scope::molecule_property, "gap", {}, Shape{}}, std::as_bytes(std::span(gap)));
    const std::vector<int64_t> count{-1};  // all bits set, as those of a NaN
    visitor.field({Scope::molecule_property, "count", {Level::molecule, ValueKind::numeric, DType::int64}, Shape{}},
                  std::as_bytes(std::span(count)));
    const CorruptFileError fault("damaged");
    visitor.field({Scope::molecule_property, "spoiled", {}, Shape{}, -1, &fault}, std::as_bytes(std::span(gap)));
  }
  void locate(DataError&, int64_t) const override {}

 private:
  template <typename T>
  static void hand_over(std::string_view key, Level level, const std::vector<T>& values, MoleculeVisitor& visitor) {
    const DType dtype = sizeof(T) == 4 ? DType::float32 : DType::float64;
    visitor.field({Scope::builtin, key, {level, ValueKind::numeric, dtype}, Shape{}}, std::as_bytes(std::span(values)));
  }
};

class Keys final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms = geometry.n_atoms; }
  void field(const FieldView& view, Bytes) override { keys.emplace_back(view.key); }
  int64_t n_atoms = 0;
  std::vector<std::string> keys;
};

TEST(NanIsMissingSource, LabelsThatAreNanThroughoutAreNotHandedOver) {
  const NanIsMissingSource source(std::make_shared<WithNan>());
  Keys seen;
  source.visit(0, {}, seen);
  EXPECT_EQ(seen.n_atoms, 2);
  EXPECT_EQ(seen.keys, (std::vector<std::string>{"forces", "charges", "stress", "features", "radial_dG_drij", "count",
                                                 "spoiled"}));
}

TEST(NanIsMissingSource, TheRestIsThatOfTheSource) {
  const auto all = part(3);
  const NanIsMissingSource source(all);
  EXPECT_EQ(source.size(), 3);
  EXPECT_EQ(source.extent(2).n_atoms, 2);
  EXPECT_EQ(source.schemas().data(), all->schemas().data());
  EXPECT_TRUE(source.needs_scratch(0));
}

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
