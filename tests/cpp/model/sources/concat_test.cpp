#include "model/sources/concat.h"

#include <gtest/gtest.h>

#include <cstring>

#include "message_of.h"
#include "model/fake_source.h"

namespace atompack {
namespace {

class GeometryCollector final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { seen = geometry; }
  void field(const FieldView&, Bytes) override {}
  Geometry seen{};
};

TEST(ConcatSource, OfNothingIsEmpty) {
  const ConcatSource source({});
  EXPECT_EQ(source.size(), 0);
  EXPECT_TRUE(source.schemas().empty());
}

TEST(ConcatSource, FindsMoleculesBehindEmptyParts) {
  const ConcatSource source({part(0), part(2), part(0), part(0), part(3), part(0)});
  EXPECT_EQ(source.size(), 5);
  const std::vector<std::pair<int64_t, int64_t>> expected{{0, 102}, {1, 102}, {0, 103}, {1, 103}, {2, 103}};
  for (int64_t i = 0; i < source.size(); ++i) {
    const MoleculeExtent extent = source.extent(i);
    EXPECT_EQ(std::pair(extent.n_atoms, extent.decoded_bytes), expected[static_cast<size_t>(i)]) << i;
    EXPECT_EQ(source.needs_scratch(i), extent.n_atoms == 0) << i;
  }
}

TEST(ConcatSource, ForwardsDecodeVisitAndLocate) {
  const ConcatSource source({part(2), part(3)});
  std::byte scratch[4];
  const Bytes record = source.decode(4, scratch);
  ASSERT_EQ(record.size(), 1U);
  EXPECT_EQ(record[0], std::byte{2});
  GeometryCollector collector;
  source.visit(3, record, collector);
  EXPECT_EQ(collector.seen.n_atoms, 1);
  CorruptFileError error("bad");
  source.locate(error, 2);
  EXPECT_STREQ(error.what(), "of 3: bad (molecule 0)");
}

TEST(ConcatSource, PrefetchesFromThePartThatHasTheMolecule) {
  const auto first = part(2);
  const auto second = part(3);
  const ConcatSource source({first, second});
  for (const int64_t index : {4, 1, 2}) source.prefetch(index);
  EXPECT_EQ(first->prefetched, std::vector<int64_t>{1});
  EXPECT_EQ(second->prefetched, (std::vector<int64_t>{2, 0}));
}

TEST(ConcatSource, CountsEqualSchemasOnce) {
  const ConcatSource source(
      {part(1, {schema_with("a")}), part(2, {schema_with("b"), schema_with("a")}),
       part(1, {schema_with("a", DType::float64)}), part(1, {schema_with("a", DType::float32, Shape{2})}),
       part(1, {schema_with("a", DType::float32, std::nullopt)}), part(1, {{DType::float32, {}}})});
  EXPECT_EQ(source.schemas().size(), 6U);
  const std::vector<int32_t> expected{0, 1, 0, 2, 3, 4, 5};
  for (int64_t i = 0; i < source.size(); ++i) EXPECT_EQ(source.schema_of(i), expected[static_cast<size_t>(i)]) << i;
}

TEST(ConcatSource, PreparesOnlyPartsThatAreRead) {
  const auto first = part(2);
  const auto second = part(3);
  const auto third = part(1);
  const ConcatSource source({first, second, third});
  const std::vector<int64_t> indices{4, 0, 2, 4};
  source.prepare(indices);
  EXPECT_EQ(first->prepared.size(), 1U);
  EXPECT_EQ(second->prepared.size(), 1U);
  EXPECT_TRUE(third->prepared.empty());
}

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
