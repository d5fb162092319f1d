#include "formats/atp/schema.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/atp/atp_bytes.h"

namespace atompack::atp {
namespace {

// One letter a tag: the level of its values where it is legal, '.' where it is not; FORMAT.md#type-tags.
struct Legal {
  std::string_view by_tag;
  Scope scope;
  std::string_view key;
};

constexpr Legal kLegal[] = {
    // 012345678901234567
    {"MMMMMMMMM....MMMMM", Scope::molecule_property, "energy"},
    {"...AAAAAA.....AAAA", Scope::atom_property, "forces"},
    {"M..........M......", Scope::builtin, "energy"},
    {"....A..A..........", Scope::builtin, "forces"},
    {"....A..A..........", Scope::builtin, "velocities"},
    {"...A..A...........", Scope::builtin, "charges"},
    {"..........M.M.....", Scope::builtin, "cell"},
    {"..........M.M.....", Scope::builtin, "stress"},
    {".........M........", Scope::builtin, "pbc"},
    {"..M...............", Scope::builtin, "name"},
    {"..................", Scope::builtin, "positions"},
};

char legal(Scope scope, std::string_view key, int tag) {
  const std::optional<FieldType> type = field_type(scope, key, static_cast<uint8_t>(tag));
  if (!type) return '.';
  return type->level == Level::atom ? 'A' : 'M';
}

std::string legal_tags(Scope scope, std::string_view key) {
  std::string line;
  for (int tag = 0; tag < kTagCount; ++tag) line += legal(scope, key, tag);
  return line;
}

TEST(FieldType, EveryTagAtEveryPlace) {
  for (const Legal& row : kLegal) EXPECT_EQ(legal_tags(row.scope, row.key), row.by_tag) << row.key;
}

TEST(FieldType, UnknownTagsAreNowhereLegal) {
  for (int tag = kTagCount; tag < 256; ++tag) {
    for (const Scope scope : {Scope::builtin, Scope::atom_property, Scope::molecule_property}) {
      ASSERT_EQ(legal(scope, "energy", tag), '.') << tag;
    }
  }
}

TEST(FieldType, KindAndElementType) {
  const auto of = [](uint8_t tag) { return *field_type(Scope::molecule_property, "k", tag); };
  EXPECT_EQ(of(0), (FieldType{Level::molecule, ValueKind::numeric, DType::float64}));
  EXPECT_EQ(of(1), (FieldType{Level::molecule, ValueKind::numeric, DType::int64}));
  EXPECT_EQ(of(2).kind, ValueKind::string);
  EXPECT_EQ(of(13).kind, ValueKind::none);
  EXPECT_EQ(of(16), (FieldType{Level::molecule, ValueKind::numeric, DType::int32}));
  EXPECT_EQ(field_type(Scope::builtin, "pbc", 9)->dtype, DType::boolean);
  EXPECT_EQ(field_type(Scope::builtin, "energy", 11)->dtype, DType::float32);
}

TEST(IsBuiltin, KnowsTheEightNames) {
  for (const char* name : {"energy", "forces", "charges", "velocities", "cell", "stress", "pbc", "name"}) {
    EXPECT_TRUE(is_builtin(name)) << name;
  }
  for (const char* name : {"", "positions", "Energy", "energy ", "force"}) EXPECT_FALSE(is_builtin(name)) << name;
}

TEST(Traits, ElementBytesAreTheSchemasNumbers) {
  for (uint8_t tag = 0; tag < kTagCount; ++tag)
    EXPECT_EQ(traits_of(tag).element_bytes, test::kElementBytes[tag]) << int{tag};
}

std::optional<Shape> molecule_row(uint8_t tag, uint64_t bytes) {
  return row_shape(traits_of(tag), Level::molecule, bytes, 0);
}
std::optional<Shape> atom_row(uint8_t tag, uint64_t bytes, uint64_t n) {
  return row_shape(traits_of(tag), Level::atom, bytes, n);
}

TEST(RowShape, FixedSizes) {
  EXPECT_EQ(molecule_row(0, 8), Shape{});
  EXPECT_EQ(molecule_row(0, 7), std::nullopt);
  EXPECT_EQ(molecule_row(11, 4), Shape{});
  EXPECT_EQ(molecule_row(9, 3), Shape{3});
  EXPECT_EQ(molecule_row(9, 4), std::nullopt);
  EXPECT_EQ(molecule_row(10, 72), (Shape{3, 3}));
  EXPECT_EQ(molecule_row(12, 72), std::nullopt);
  EXPECT_EQ(molecule_row(13, 0), Shape{});
  EXPECT_EQ(molecule_row(13, 1), std::nullopt);
}

TEST(RowShape, ArraysOfAMolecule) {
  EXPECT_EQ(molecule_row(3, 0), Shape{0});
  EXPECT_EQ(molecule_row(3, 24), Shape{3});
  EXPECT_EQ(molecule_row(8, 12), Shape{3});
  EXPECT_EQ(molecule_row(4, 24), (Shape{2, 3}));
  EXPECT_EQ(molecule_row(7, 0), (Shape{0, 3}));
  EXPECT_EQ(molecule_row(4, 25), std::nullopt);
  EXPECT_EQ(molecule_row(8, 0xFFFFFFFC), Shape{0x3FFFFFFF});
}

TEST(RowShape, RowsOfAtoms) {
  EXPECT_EQ(atom_row(3, 16, 2), Shape{});
  EXPECT_EQ(atom_row(3, 16, 3), std::nullopt);
  EXPECT_EQ(atom_row(7, 48, 2), Shape{3});
  EXPECT_EQ(atom_row(7, 0, 0), Shape{3});
  EXPECT_EQ(atom_row(7, 24, 0), std::nullopt);
}

TEST(RowShape, TextHasAnyLengthAndTensorsSpeakForThemselves) {
  EXPECT_EQ(molecule_row(2, 12345), Shape{});
  EXPECT_EQ(molecule_row(14, 4), std::nullopt);
}

}  // namespace
}  // namespace atompack::atp
