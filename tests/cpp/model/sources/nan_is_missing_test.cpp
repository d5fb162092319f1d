#include "model/sources/forwarding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/fake_source.h"

namespace atompack {
namespace {

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

}  // namespace
}  // namespace atompack
