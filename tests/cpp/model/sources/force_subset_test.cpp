#include "model/sources/forwarding.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace atompack
