#include "formats/torch_cache/source.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "fixtures.h"
#include "message_of.h"
#include "model/sources/joined.h"

namespace atompack::torch_cache {
namespace {

std::shared_ptr<const Cache> open(const std::string& name) {
  return std::make_shared<Cache>((test::fixtures_root() / "torch_cache" / (name + ".h5")).string());
}

// All that is handed over, by name; lengths are those that types and shapes ask for.
class Collector final : public MoleculeVisitor {
 public:
  Collector(const MoleculeSource& source, int64_t entry) : schema_(source.schemas()[0]), extent_(source.extent(entry)) {
    source.visit(entry, source.decode(entry, {}), *this);
  }

  void geometry(const Geometry& geometry) override {
    ++n_geometries;
    n_atoms = geometry.n_atoms;
    EXPECT_EQ(geometry.positions_dtype, DType::float64);
    EXPECT_EQ(geometry.positions.size(), static_cast<size_t>(24 * n_atoms));
    EXPECT_EQ(geometry.numbers.size(), static_cast<size_t>(n_atoms));
  }
  void field(const FieldView& view, Bytes data) override {
    const FieldDeclaration& declared = schema_.fields.at(static_cast<size_t>(view.declaration));
    EXPECT_EQ(view.key, declared.key);
    EXPECT_EQ(view.type, declared.type);
    if (declared.type.kind == ValueKind::numeric) {
      const int64_t bytes = static_cast<int64_t>(item_bytes(view.type.dtype)) * view.row_shape.numel();
      const int64_t rows[] = {1, extent_.n_atoms, extent_.n_edges, extent_.n_triplets};
      EXPECT_EQ(std::ssize(data), bytes * rows[static_cast<size_t>(view.type.level)]) << view.key;
    }
    fields.emplace(view.key, data.size());
  }

  int n_geometries = 0;
  int64_t n_atoms = -1;
  std::map<std::string, size_t> fields;

 private:
  const MoleculeSchema& schema_;
  MoleculeExtent extent_;
};

TEST(CacheSource, OfWholeEntries) {
  const CacheSource source(open("v2_both_f64_three"), EntryParts::whole);
  EXPECT_EQ(source.size(), 11);
  ASSERT_EQ(source.schemas().size(), 1U);
  EXPECT_EQ(source.schemas()[0].fields.size(), 5 + 1 + kNumberOfColumns);
  for (int64_t entry = 0; entry < source.size(); ++entry) {
    const Collector found(source, entry);
    const bool has_forces = entry != 1 && entry != 8;
    EXPECT_EQ(found.n_geometries, 1);
    EXPECT_EQ(found.fields.contains("forces"), has_forces);
    EXPECT_EQ(found.fields.contains("radial_dG_drij"), has_forces);
    EXPECT_EQ(found.fields.contains("pbc"), found.fields.contains("cell"));
    EXPECT_TRUE(found.fields.contains("features") && found.fields.contains("name") && found.fields.contains("energy"));
  }
}

TEST(CacheSource, OfRowsAlone) {
  const CacheSource source(open("v2_both_f64_three"), EntryParts::rows);
  EXPECT_EQ(source.schemas()[0].fields.size(), 1 + kNumberOfColumns);
  const Collector found(source, 0);
  EXPECT_EQ(found.n_geometries, 0);
  EXPECT_EQ(found.fields.size(), 1 + kNumberOfColumns);
  const MoleculeExtent extent = source.extent(0);
  EXPECT_EQ(extent.n_atoms, 5);
  EXPECT_EQ(extent.n_edges, 18);
  EXPECT_EQ(extent.n_triplets, 18);
}

TEST(CacheSource, OneSpeciesHasNoTypespins) {
  const CacheSource source(open("v2_both_f64_single"), EntryParts::rows);
  EXPECT_EQ(source.schemas()[0].fields.size(), 1 + kNumberOfColumns - 2);
  EXPECT_FALSE(Collector(source, 0).fields.contains("radial_neighbor_typespin"));
}

TEST(CacheSource, IndicesAreMarked) {
  const CacheSource source(open("v2_both_f32_three"), EntryParts::rows);
  for (const FieldDeclaration& field : source.schemas()[0].fields) {
    EXPECT_EQ(field.type.is_atom_index, field.key.ends_with("_idx")) << field.key;
    EXPECT_EQ(field.type.dtype, field.key.ends_with("_idx") ? DType::int64 : DType::float32) << field.key;
  }
}

TEST(CacheSource, WithoutACacheThereAreLabelsAlone) {
  const CacheSource source(open("plain_no_cache"), EntryParts::whole);
  EXPECT_EQ(source.schemas()[0].fields.size(), 5U);
  EXPECT_EQ(Collector(source, 2).n_geometries, 1);
  EXPECT_TRUE(CacheSource(open("plain_no_cache"), EntryParts::rows).schemas()[0].fields.empty());
}

TEST(CacheSource, AnEnergyThatIsNotANumberIsAbsent) {
  const CacheSource source(open("plain_pickle_variants"), EntryParts::whole);
  EXPECT_TRUE(Collector(source, 8).fields.contains("energy"));
  EXPECT_FALSE(Collector(source, 9).fields.contains("energy"));
  EXPECT_FALSE(Collector(source, 11).fields.contains("energy"));
}

TEST(CacheSource, JoinsMoleculesOfAnotherSource) {
  const auto molecules = std::make_shared<CacheSource>(open("plain_no_cache"), EntryParts::whole);
  const auto rows = std::make_shared<CacheSource>(open("v2_both_f64_two"), EntryParts::rows);
  const JoinedSource source(molecules, rows);
  for (int64_t entry = 0; entry < source.size(); ++entry) {
    const Collector found(source, entry);
    EXPECT_EQ(found.n_geometries, 1);
    EXPECT_TRUE(found.fields.contains("features"));
  }
  const auto more = std::make_shared<CacheSource>(open("v2_both_f64_three"), EntryParts::rows);
  EXPECT_NE(test::message_of<FieldError>([&] { JoinedSource(molecules, more); }), "nothing was thrown");
}

}  // namespace
}  // namespace atompack::torch_cache
