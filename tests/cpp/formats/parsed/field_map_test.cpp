#include "formats/parsed/field_map.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>

#include "base/error.h"

namespace atompack::parsed {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Array reals(std::vector<double> values, std::vector<int64_t> shape) {
  Array array;
  array.kind = Kind::real;
  array.shape = std::move(shape);
  array.reals = std::move(values);
  return array;
}

// Shows the fields of a record as "key=first value".
class Shown final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override { text += cat(geometry.n_atoms, " atoms"); }
  void field(const FieldView& field, Bytes data) override {
    text += cat(", ",
                field.scope == Scope::builtin         ? ""
                : field.scope == Scope::atom_property ? "atoms/"
                                                      : "own/",
                field.key, field.row_shape, '=');
    if (field.type.kind == ValueKind::string) {
      text += as_text(data);
    } else if (field.type.dtype == DType::float64) {
      text += cat(load_le<double>(data.data()));
    } else if (field.type.dtype == DType::int64) {
      text += cat(load_le<int64_t>(data.data()));
    }
  }
  std::string text;
};

TEST(FieldMap, ManyKeys) {
  std::vector<Target> targets;
  for (size_t i = 0; i < kMaxKeys; ++i) {
    const std::string key = cat("k", i);
    targets.push_back({Level::molecule, key, Scope::molecule_property, key, Kind::real, std::vector<int64_t>()});
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(FieldMap(targets, false, {}).schema().fields.size(), kMaxKeys + 1);   // and pbc
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));  // by the square: a minute
  targets.push_back(targets.back());
  EXPECT_THROW(FieldMap(targets, false, {}), UnsupportedFormatError);
}

TEST(FieldMap, FlagsAreIntegersUnlessTheyAreKept) {
  const std::vector<Target> targets = {
      {Level::molecule, "a", Scope::molecule_property, "a", Kind::flag, std::vector<int64_t>{}},
      {Level::atom, "b", Scope::atom_property, "b", Kind::flag, std::vector<int64_t>{2}}};
  const auto dtypes = [&](bool is_exact) {
    const FieldMap map(targets, false, {}, false, is_exact);
    std::vector<DType> found;  // of b, of a; pbc comes first
    for (const FieldDeclaration& field : map.schema().fields) found.push_back(field.type.dtype);
    return found;
  };
  EXPECT_EQ(dtypes(false), (std::vector{DType::boolean, DType::int32, DType::int64}));
  EXPECT_EQ(dtypes(true), (std::vector{DType::boolean, DType::boolean, DType::boolean}));
}

TEST(FieldMap, PropertiesOfTheLevelOfTheirKeys) {
  for (const auto& [level, scope] :
       {std::pair(Level::molecule, Scope::atom_property), std::pair(Level::atom, Scope::molecule_property)}) {
    EXPECT_THROW(FieldMap({{level, "q", scope, "q", Kind::real, std::vector<int64_t>{}}}, false, {}), FieldError);
  }
}

class MoleculeBuilding : public ::testing::Test {
 protected:
  using Values = std::vector<std::pair<std::string, Array>>;

  std::string built(const FieldMap& map, Values rows, Values values, size_t n_bytes = 4096) {
    std::vector<std::byte> scratch(n_bytes);
    const std::array<double, 6> positions{};
    const std::array<uint8_t, 2> numbers{1, 8};
    MoleculeBuilder molecule(map, scratch, positions, numbers);
    size_t guess = 0;
    for (auto& [key, array] : rows) molecule.add(*map.find(Level::atom, key, guess), key, array);
    for (auto& [key, array] : values) molecule.add(*map.find(Level::molecule, key, guess), key, array);
    Shown shown;
    visit_record(molecule.finish(), map.schema(), shown);
    return shown.text;
  }
};

TEST_F(MoleculeBuilding, LabelsAndProperties) {
  const FieldMap map({{Level::molecule, "E", Scope::builtin, "energy", Kind::real, std::vector<int64_t>{}},
                      {Level::molecule, "k", Scope::molecule_property, "k", Kind::real, std::vector<int64_t>{2}},
                      {Level::atom, "f", Scope::builtin, "forces", Kind::real, std::vector<int64_t>{3}}},
                     false, {});
  EXPECT_EQ(built(map, {{"f", reals({1, 2, 3, 4, 5, 6}, {3})}}, {{"E", reals({-1}, {})}, {"k", reals({7, 8}, {2})}}),
            "2 atoms, forces(3,)=1, energy()=-1, own/k(2,)=7");
  EXPECT_EQ(built(map, {{"f", reals(std::vector<double>(6, kNan), {3})}}, {{"E", reals({kNan}, {})}}), "2 atoms");
  EXPECT_EQ(built(map, {{"f", reals({kNan, kNan, kNan, 4, 5, 6}, {3})}}, {}), "2 atoms, forces(3,)=nan");
  EXPECT_THROW(built(map, {{"f", reals({1, 2}, {})}}, {}), FieldError);
  EXPECT_THROW(built(map, {{"f", reals({1, 2, 3, 4, 5, 6}, {3})}}, {}, 120), CorruptFileError);
}

TEST_F(MoleculeBuilding, KeysOfOneFieldShareItsType) {
  Array whole;
  whole.kind = Kind::integer;
  whole.integers = {7};
  const auto map = [](Kind first, Kind second) {
    return FieldMap({{Level::molecule, "a/q", Scope::molecule_property, "q", first, std::vector<int64_t>{}, true},
                     {Level::molecule, "b/q", Scope::molecule_property, "q", second, std::vector<int64_t>{}}},
                    false, {});
  };
  for (const auto& kinds : {std::pair(Kind::integer, Kind::real), std::pair(Kind::real, Kind::integer),
                            std::pair(Kind::null, Kind::real)}) {
    const FieldMap fields = map(kinds.first, kinds.second);
    EXPECT_EQ(built(fields, {}, {{"a/q", whole}}), "2 atoms, own/q()=7");
    EXPECT_EQ(built(fields, {}, {{"b/q", whole}}), "2 atoms, own/q()=7");
    EXPECT_EQ(built(fields, {}, {{"b/q", reals({0.5}, {})}}), "2 atoms, own/q()=0.5");
  }
  const FieldMap texts = map(Kind::integer, Kind::text);
  EXPECT_EQ(built(texts, {}, {{"a/q", whole}}), "2 atoms");
  whole.to_text();
  EXPECT_EQ(built(texts, {}, {{"a/q", whole}}), "2 atoms, own/q()=7");
}

TEST_F(MoleculeBuilding, Momenta) {
  const std::vector<double> masses = {kNan, 2, kNan, kNan, kNan, kNan, kNan, kNan, 16};
  const FieldMap map(
      {{Level::atom, "momenta", Scope::builtin, "velocities", Kind::real, std::vector<int64_t>{3}, false, true},
       {Level::atom, "velocities", Scope::builtin, "velocities", Kind::real, std::vector<int64_t>{3}}},
      false, masses);
  const Array momenta = reals({2, 0, 0, 16, 0, 0}, {3});
  EXPECT_EQ(built(map, {{"momenta", momenta}}, {}), "2 atoms, velocities(3,)=1");
  const Array near = reals({1 + 1e-12, 0, 0, 1, 0, 0}, {3}), far = reals({3, 0, 0, 1, 0, 0}, {3});
  EXPECT_EQ(built(map, {{"momenta", momenta}, {"velocities", near}}, {}), "2 atoms, velocities(3,)=1");
  EXPECT_EQ(built(map, {{"velocities", far}}, {}), "2 atoms, velocities(3,)=3");
  EXPECT_EQ(built(map, {{"momenta", momenta}, {"velocities", far}}, {}),
            "2 atoms, velocities(3,)=1, atoms/velocities(3,)=3");
}

}  // namespace
}  // namespace atompack::parsed
