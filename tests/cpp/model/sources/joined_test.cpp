#include "model/sources/joined.h"

#include <gtest/gtest.h>

#include "message_of.h"
#include "model/fake_source.h"

namespace atompack {
namespace {

// Two fields per molecule: "features" (declared after another), and one that no schema lists.
class FakeCache final : public MoleculeSource {
 public:
  explicit FakeCache(int64_t size, int64_t more_atoms = 0) : size_(size), more_atoms_(more_atoms) {}

  int64_t size() const override { return size_; }
  std::span<const MoleculeSchema> schemas() const override { return schemas_; }
  int32_t schema_of(int64_t) const override { return 0; }
  void prepare(std::span<const int64_t> indices) const override { prepared.assign(indices.begin(), indices.end()); }
  MoleculeExtent extent(int64_t index) const override { return {index + more_atoms_, 7, 11, 3, 5}; }
  bool needs_scratch(int64_t) const override { return false; }
  Bytes decode(int64_t, std::span<std::byte>) const override { return {}; }
  void visit(int64_t, Bytes, MoleculeVisitor& visitor) const override {
    visitor.geometry({999, DType::float64, {}, {}});
    visitor.field({Scope::builtin, "features", {}, Shape{}, 1}, {});
    visitor.field({Scope::builtin, "unlisted", {}, Shape{}, -1}, {});
  }
  void locate(DataError&, int64_t) const override {}

  mutable std::vector<int64_t> prepared;

 private:
  int64_t size_, more_atoms_;
  std::vector<MoleculeSchema> schemas_{
      {DType::float64, {{Scope::builtin, "other", {}, Shape{}}, {Scope::builtin, "features", {}, Shape{}}}}};
};

class Recorder final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms.push_back(geometry.n_atoms); }
  void field(const FieldView& view, Bytes) override { declarations.push_back(view.declaration); }
  std::vector<int64_t> n_atoms;
  std::vector<int32_t> declarations;
};

TEST(JoinedSource, FieldsStandBehindThoseOfTheMolecules) {
  const auto cache = std::make_shared<FakeCache>(4);
  const JoinedSource source(part(4, {schema_with("a"), schema_with("b")}), cache);
  ASSERT_EQ(source.schemas().size(), 2U);
  for (int64_t i = 0; i < 4; ++i) {
    const auto& fields = source.schemas()[static_cast<size_t>(source.schema_of(i))].fields;
    ASSERT_EQ(fields.size(), 3U);
    EXPECT_EQ(fields[0].key, i % 2 == 0 ? "a" : "b");
    EXPECT_EQ(fields[2].key, "features");
    Recorder seen;
    source.visit(i, {}, seen);
    EXPECT_EQ(seen.n_atoms, std::vector<int64_t>{i});
    EXPECT_EQ(seen.declarations, (std::vector<int32_t>{2, -1}));
  }
  source.prepare(std::vector<int64_t>{3, 1});
  EXPECT_EQ(cache->prepared, (std::vector<int64_t>{3, 1}));
}

TEST(JoinedSource, ExtentsAddUp) {
  const JoinedSource source(part(4), std::make_shared<FakeCache>(4));
  const MoleculeExtent extent = source.extent(2);
  EXPECT_EQ(extent.n_atoms, 2);
  EXPECT_EQ(extent.decoded_bytes, 104 + 7);
  EXPECT_EQ(extent.work, 11);
  EXPECT_EQ(extent.n_edges, 3);
  EXPECT_EQ(extent.n_triplets, 5);
}

TEST(JoinedSource, RefusesWhatDoesNotBelongTogether) {
  EXPECT_THROW(JoinedSource(part(4), std::make_shared<FakeCache>(3)), FieldError);
  const JoinedSource source(part(4), std::make_shared<FakeCache>(4, 1));
  EXPECT_EQ(test::message_of<FieldError>([&] { source.extent(2); }),
            "of 4: cache: expected an entry of 2 atoms, got 3 (molecule 2)");
}

}  // namespace
}  // namespace atompack
