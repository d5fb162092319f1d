#include "model/sources/concat.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model/fake_source.h"

namespace atompack {
namespace {

// The last field that was handed over, and how many there were.
class FieldCollector final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { n_atoms = geometry.n_atoms; }
  void field(const FieldView& view, Bytes data) override {
    ++n_fields;
    seen = view;
    ASSERT_EQ(data.size(), sizeof(value));
    std::memcpy(&value, data.data(), sizeof(value));
  }
  int64_t n_atoms = -1;
  int n_fields = 0;
  FieldView seen{};
  int64_t value = -1;
};

TEST(MixtureSource, TellsWhichPartAMoleculeIsFrom) {
  const MixtureSource source({part(0), part(2), part(0), part(3), part(0)});
  ASSERT_EQ(source.size(), 5);
  const std::vector<std::pair<int64_t, int64_t>> expected{{1, 0}, {1, 1}, {3, 0}, {3, 1}, {3, 2}};
  for (int64_t i = 0; i < source.size(); ++i) {
    FieldCollector collector;
    source.visit(i, {}, collector);
    EXPECT_EQ(std::pair(collector.value, collector.n_atoms), expected[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(collector.n_fields, 1);
    EXPECT_EQ(collector.seen.scope, Scope::builtin);
    EXPECT_EQ(collector.seen.key, "source");
    EXPECT_EQ(collector.seen.row_shape, Shape{});
  }
}

TEST(MixtureSource, DeclaresTheFieldBehindThoseOfEachSchema) {
  const MixtureSource source({part(1, {schema_with("a")}), part(2, {{DType::float64, {}}, schema_with("a")})});
  ASSERT_EQ(source.schemas().size(), 2U);
  for (int64_t i = 0; i < source.size(); ++i) {
    const auto& fields = source.schemas()[static_cast<size_t>(source.schema_of(i))].fields;
    EXPECT_EQ(fields.size(), i == 1 ? 1U : 2U);
    EXPECT_EQ(fields.front().key, i == 1 ? "source" : "a");
    FieldCollector collector;
    source.visit(i, {}, collector);
    ASSERT_EQ(collector.seen.declaration, std::ssize(fields) - 1);
    EXPECT_EQ(fields.back().scope, Scope::builtin);
    EXPECT_EQ(fields.back().key, "source");
    EXPECT_EQ(fields.back().type, collector.seen.type);
    EXPECT_EQ(fields.back().row_shape, Shape{});
  }
}

TEST(MixtureSource, ForwardsEverythingElse) {
  const auto first = part(2);
  const auto second = part(3);
  const MixtureSource source({first, second});
  const std::vector<int64_t> indices{4, 1};
  source.prepare(indices);
  source.prefetch(3);
  EXPECT_EQ(first->prepared, (std::vector<std::vector<int64_t>>{{1}}));
  EXPECT_EQ(second->prepared, (std::vector<std::vector<int64_t>>{{2}}));
  EXPECT_EQ(second->prefetched, std::vector<int64_t>{1});
  EXPECT_EQ(source.extent(4).n_atoms, 2);
  EXPECT_TRUE(source.needs_scratch(2));
  EXPECT_FALSE(source.needs_scratch(3));
  std::byte scratch[4];
  EXPECT_EQ(source.decode(4, scratch)[0], std::byte{2});
  CorruptFileError error("bad");
  source.locate(error, 2);
  EXPECT_STREQ(error.what(), "of 3: bad (molecule 0)");
}

}  // namespace
}  // namespace atompack
