#include "formats/atp/schema.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/atp/atp_bytes.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using test::ByteString;
using test::corrupt;
using test::EntryFields;
using test::kAtom;
using test::kBuiltin;
using test::kMolecule;

constexpr uint64_t kBlobAt = 9000;

Schema decode(const ByteString& blob, uint32_t record_format = 2, uint64_t n_molecules = 1) {
  Header header = test::fresh_header();
  header.record_format = record_format;
  header.n_molecules = n_molecules;
  header.schema_length = blob.size();
  header.schema_offset = blob.size() == 0 ? 0 : kBlobAt;
  return decode_schema(blob.bytes(), header);
}

Schema decode_entry(const EntryFields& entry) { return decode(test::schema({entry})); }

TEST(Schema, SlotBytesMatterForSizedMoleculeFieldsOnly) {
  EXPECT_EQ(decode_entry({kMolecule, "a", 4, 36}).entries[0].slot_bytes, 36U);
  EXPECT_EQ(decode_entry({kMolecule, "a", 3, 0}).entries[0].slot_bytes, 0U);
  EXPECT_EQ(decode_entry({kBuiltin, "energy", 0, 8}).entries[0].slot_bytes, 8U);
  EXPECT_EQ(decode_entry({kBuiltin, "forces", 4, 12, true}).entries[0].slot_bytes, std::nullopt);
  EXPECT_EQ(decode_entry({kAtom, "q", 3, 80, true}).entries[0].slot_bytes, std::nullopt);  // release 0.3.0: n x 8
  EXPECT_EQ(decode_entry({kMolecule, "a", 2, 0}).entries[0].slot_bytes, std::nullopt);
  EXPECT_EQ(decode_entry({kMolecule, "a", 13, 0}).entries[0].slot_bytes, std::nullopt);
  EXPECT_EQ(decode_entry({kMolecule, "a", 15, 0}).entries[0].slot_bytes, std::nullopt);
}

TEST(Schema, MayBeAbsentFromFormat2) {
  const Schema schema = decode(ByteString());
  EXPECT_FALSE(schema.is_stored);
  EXPECT_EQ(schema.positions, DType::float32);
  EXPECT_TRUE(schema.entries.empty());
  EXPECT_NO_THROW(decode(ByteString(), 3, 0));
  EXPECT_EQ(corrupt([] { decode(ByteString(), 3); }),
            "schema: expected one that gives the type of positions in record format 3, got none");
}

TEST(Schema, RefusesImpossibleEntries) {
  const auto said = [](const EntryFields& entry) { return corrupt([&] { decode_entry(entry); }); };
  EXPECT_EQ(said({kMolecule, "k", 18, 0}), "schema type tag: expected 0 to 17, got 18 (field 'k', offset 9009)");
  EXPECT_EQ(said({kMolecule, "k", 9, 3}), "schema type tag: 9 is invalid here (field 'k', offset 9009)");
  EXPECT_EQ(said({kBuiltin, "energy", 1, 8}), "schema type tag: 1 is invalid here (field 'energy', offset 9009)");
  EXPECT_EQ(said({kAtom, "k", 13, 0, true}), "schema type tag: 13 is invalid here (field 'k', offset 9009)");
  EXPECT_EQ(said({kMolecule, "k", 0, 8, true}), "schema per-atom flag: expected 0, got 1 (field 'k', offset 9009)");
  EXPECT_EQ(said({kAtom, "k", 3, 8, false}), "schema per-atom flag: expected 1, got 0 (field 'k', offset 9009)");
  EXPECT_EQ(said({kBuiltin, "forces", 4, 12}), "schema per-atom flag: expected 1, got 0 (field 'forces', offset 9009)");
  const auto slot = [](int n) {
    return cat("schema slot bytes: ", n, " is invalid for this type tag (field 'k', offset 9009)");
  };
  EXPECT_EQ(said({kMolecule, "k", 0, 4}), slot(4));
  EXPECT_EQ(said({kMolecule, "k", 0, 16}), slot(16));
  EXPECT_EQ(said({kMolecule, "k", 2, 1}), slot(1));
  EXPECT_EQ(said({kMolecule, "k", 13, 1}), slot(1));
  EXPECT_EQ(said({kMolecule, "k", 14, 4}), slot(4));
  EXPECT_EQ(said({kMolecule, "k", 3, 12}), slot(12));
  EXPECT_EQ(said({kAtom, "k", 4, 16, true}), slot(16));
}

TEST(Schema, PassesOverWhatNoReaderShows) {
  ByteString unknown_kind = test::schema({{kMolecule, "k", 0, 8}, {kMolecule, "b", 0, 8}});
  unknown_kind.patch<uint8_t>(9, 3);
  EXPECT_EQ(decode(unknown_kind).entries.size(), 1U);
  EXPECT_TRUE(decode_entry({kBuiltin, "dipole", 0, 8}).entries.empty());
}

TEST(Schema, AKeyThatNoSectionCanHoldIsPassedOver) {
  const std::string longest(255, 'k');
  EXPECT_EQ(decode_entry({kMolecule, longest, 0, 8}).entries.size(), 1U);
  EXPECT_TRUE(decode_entry({kMolecule, longest + 'k', 0, 8}).entries.empty());
}

TEST(Schema, RefusesTheSameKeyTwice) {
  EXPECT_EQ(
      corrupt([] { decode(test::schema({{kMolecule, "k", 0, 8}, {kMolecule, "a", 1, 8}, {kMolecule, "k", 1, 8}})); }),
      "schema: duplicate key (field 'k')");
}

TEST(Schema, RefusesATruncatedBlobAtEveryByte) {
  const ByteString blob = test::schema({{kBuiltin, "energy", 0, 8}, {kMolecule, "", 2, 0}, {kMolecule, "key", 3, 16}});
  EXPECT_EQ(decode(blob).entries.size(), 3U);
  for (size_t size = 1; size < blob.size(); ++size) {
    EXPECT_THROW(decode(ByteString(blob).cut(size)), CorruptFileError) << size;
  }
  EXPECT_EQ(corrupt([&] { decode(ByteString(blob).cut(11)); }),
            "schema per-atom flag: expected 1 bytes, got 0 (offset 9011)");
}

TEST(Schema, AClaimedCountTakesNoMemory) {
  ByteString blob = test::schema({});
  blob.patch<uint32_t>(5, 0xFFFFFFFF);
  EXPECT_EQ(corrupt([&] { decode(blob); }), "schema kind: expected 1 bytes, got 0 (offset 9009)");
}

TEST(Schema, TheUnionKeepsItsBaseAndRefusesOtherTypes) {
  Schema base;
  const FieldType number{Level::molecule, ValueKind::numeric, DType::float64};
  base.entries.push_back(entry_for(Scope::molecule_property, "b", 0, number, Shape{}));
  SchemaUnion both(base);
  both.add(base.entries[0]);
  both.add(entry_for(Scope::molecule_property, "a", 3, number, Shape{4}));
  both.add(entry_for(Scope::molecule_property, "a", 3, number, Shape{4}));
  ASSERT_EQ(both.added().size(), 1U);
  EXPECT_EQ(both.added()[0].slot_bytes, 32U);
  EXPECT_EQ(both.merged_schema().entries.at(0).key, "a");
  EXPECT_EQ(both.merged_schema().entries.at(1).key, "b");
  EXPECT_EQ(
      test::message_of<FieldError>([&] { both.add(entry_for(Scope::molecule_property, "a", 3, number, Shape{5})); }),
      "type: expected float64 array of length 4 as in earlier molecules, got float64 array of length 5");
}

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

}  // namespace
}  // namespace atompack::atp
