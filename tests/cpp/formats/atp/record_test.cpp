#include "formats/atp/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "cpu_time.h"
#include "formats/atp/visit_record.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using test::ByteString;
using test::CollectingVisitor;
using test::corrupt;
using test::decoder_for;
using test::EntryFields;
using test::kAtom;
using test::kBuiltin;
using test::kMolecule;
using test::only_field;
using test::record;
using test::section;
using test::text_of;
using test::visit;

TEST(Record, GeometryOfFormat2And3) {
  const CollectingVisitor narrow = visit(decoder_for({}), record(2));
  EXPECT_EQ(narrow.n_atoms, 2);
  EXPECT_EQ(narrow.positions_dtype, DType::float32);
  EXPECT_EQ(narrow.positions, text_of(ByteString().put_all<float>({0, 0.5, 1, 1.5, 2, 2.5})));
  EXPECT_EQ(narrow.numbers, "\x01\x02");
  const CollectingVisitor wide = visit(decoder_for({}, 7), record<double>(1));
  EXPECT_EQ(wide.positions_dtype, DType::float64);
  EXPECT_EQ(wide.positions, text_of(ByteString().put_all<double>({0, 0.5, 1})));
}

TEST(Record, NoAtomsAndNoSections) {
  const CollectingVisitor seen = visit(decoder_for({}), record(0));
  EXPECT_EQ(seen.n_atoms, 0);
  EXPECT_TRUE(seen.positions.empty());
  EXPECT_TRUE(seen.fields.empty());
}

TEST(Record, LeastBytesAreThoseOfGeometryAlone) {
  EXPECT_EQ(decoder_for({}).min_bytes(0), record(0).size());
  EXPECT_EQ(decoder_for({}).min_bytes(5), record(5).size());
  EXPECT_EQ(decoder_for({}, 7).min_bytes(5), record<double>(5).size());
  EXPECT_EQ(decoder_for({}, 7).min_bytes(0xFFFFFFFF), 6 + 25 * uint64_t{0xFFFFFFFF});
}

TEST(Record, TheAtomCountMustBeThatOfTheIndex) {
  CollectingVisitor visitor;
  EXPECT_EQ(corrupt([&] { decoder_for({}).visit(record(2).bytes(), 3, visitor); }),
            "atom count: expected 3 as in the index, got 2 (offset 0)");
  EXPECT_EQ(visitor.n_atoms, -1);
}

TEST(Record, WhatNoReaderShowsIsPassedOver) {
  ByteString unknown_kind = section(kMolecule, "k", 0, ByteString().zeros(8));
  unknown_kind.patch<uint8_t>(0, 3);
  const ByteString with_both =
      record(0, {unknown_kind, section(kBuiltin, "dipole", 99, {1, 2, 3}), section(kMolecule, "id", 2, {})});
  const CollectingVisitor seen = visit(decoder_for({}), with_both);
  ASSERT_EQ(seen.fields.size(), 1U);
  EXPECT_EQ(seen.fields[0].key, "id");
}

TEST(Record, RepeatedKeysAreAllHandedOn) {
  const CollectingVisitor seen =
      visit(decoder_for({{kMolecule, "k", 2, 0}}),
            record(0, {section(kMolecule, "k", 2, {'1'}), section(kMolecule, "k", 2, {'2'})}));
  ASSERT_EQ(seen.fields.size(), 2U);
  EXPECT_EQ(seen.fields[0].data + seen.fields[1].data, "12");
  EXPECT_EQ(seen.fields[0].declaration, seen.fields[1].declaration);
}

TEST(Record, KeysOfEveryLengthAndWithNul) {
  const std::string longest(255, 'k');
  EXPECT_EQ(only_field(0, section(kMolecule, longest, 2, {'v'}), {kMolecule, longest, 2, 0}).data, "v");
  const std::string_view nul("a\0b", 3);
  EXPECT_EQ(only_field(0, section(kMolecule, nul, 2, {'v'}), {kMolecule, nul, 2, 0}).key, nul);
}

TEST(Record, AnyOrderOfSectionsFindsItsDeclaration) {
  const std::vector<EntryFields> entries{{kBuiltin, "energy", 0, 8},
                                         {kAtom, "q", 3, 8, true},
                                         {kMolecule, "a", 2, 0},
                                         {kMolecule, "b", 2, 0},
                                         {kMolecule, "bb", 2, 0}};
  std::vector<ByteString> sections{section(kBuiltin, "energy", 0, ByteString().zeros(8)),
                                   section(kAtom, "q", 3, ByteString().zeros(8)), section(kMolecule, "a", 2, {'a'}),
                                   section(kMolecule, "b", 2, {'b'}), section(kMolecule, "bb", 2, {'c'})};
  const RecordDecoder decoder = decoder_for(entries);
  std::vector<int> order{0, 1, 2, 3, 4};
  do {
    std::vector<ByteString> ordered;
    for (const int i : order) ordered.push_back(sections[static_cast<size_t>(i)]);
    const CollectingVisitor seen = visit(decoder, record(1, ordered));
    ASSERT_EQ(seen.fields.size(), 5U);
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(seen.fields[i].declaration, order[i]);
      ASSERT_EQ(seen.fields[i].key, entries[static_cast<size_t>(order[i])].key);
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(Record, TheSameKeyInTwoScopesIsTwoFields) {
  const RecordDecoder decoder = decoder_for({{kAtom, "k", 3, 8, true}, {kMolecule, "k", 0, 8}});
  const CollectingVisitor seen = visit(decoder, record(1, {section(kMolecule, "k", 0, ByteString().zeros(8)),
                                                           section(kAtom, "k", 3, ByteString().zeros(8))}));
  EXPECT_EQ(seen.fields.at(0).declaration, 1);
  EXPECT_EQ(seen.fields.at(1).declaration, 0);
}

TEST(Record, BytesAfterTheLastSectionAreIgnored) { EXPECT_EQ(visit(decoder_for({}), record(1).zeros(9)).n_atoms, 1); }

TEST(Record, AKeyThatIsNotUtf8SpoilsTheRecord) {
  EXPECT_EQ(corrupt([] { visit(decoder_for({}), record(0, {section(kMolecule, "\xFF", 2, {})})); }),
            "section key: expected UTF-8, got other bytes (offset 6)");
}

TEST(Record, RefusesARecordCutAtEveryByte) {
  const std::vector<EntryFields> entries{{kBuiltin, "energy", 0, 8}, {kMolecule, "id", 1, 8}};
  const ByteString whole = record(
      2, {section(kBuiltin, "energy", 0, ByteString().zeros(8)), section(kMolecule, "id", 1, ByteString().zeros(8)),
          section(kMolecule, "more", 2, ByteString("text"))});
  for (const RecordDecoder& decoder : {decoder_for({}), decoder_for(entries)}) {
    EXPECT_EQ(visit(decoder, whole).fields.size(), 3U);
    for (size_t size = 0; size < whole.size(); ++size) {
      CollectingVisitor visitor;
      EXPECT_THROW(decoder.visit(whole.bytes().first(size), 2, visitor), CorruptFileError) << size;
    }
  }
}

TEST(Record, SaysWhatRunsPastTheEnd) {
  ByteString overrun = record(2);
  EXPECT_EQ(corrupt([&] { visit(decoder_for({}), overrun.patch<uint32_t>(0, 1000)); }),
            "positions: expected 12000 bytes, got 28 (offset 4)");
  ByteString sections = record(0);
  EXPECT_EQ(corrupt([&] { visit(decoder_for({}), sections.patch<uint16_t>(4, 1)); }),
            "section kind: expected 1 bytes, got 0 (offset 6)");
  ByteString payload = record(0, {section(kMolecule, "id", 1, ByteString().zeros(8))});
  EXPECT_EQ(corrupt([&] { visit(decoder_for({{kMolecule, "id", 1, 8}}), payload.patch<uint32_t>(11, 0xFFFFFFFF)); }),
            "payload: expected 4294967295 bytes, got 8 (offset 15)");
}

TEST(RecordDecoder, TellsWhatTheSchemaPromises) {
  const RecordDecoder decoder = decoder_for({{kBuiltin, "forces", 7, 24, true},
                                             {kAtom, "t", 14, 0, true},
                                             {kMolecule, "a", 3, 16},
                                             {kMolecule, "s", 2, 0},
                                             {kMolecule, "u", 17, 0}},
                                            7);
  const MoleculeSchema& declared = decoder.declared();
  EXPECT_EQ(declared.positions, DType::float64);
  ASSERT_EQ(declared.fields.size(), 5U);
  EXPECT_EQ(declared.fields[0].row_shape, Shape{3});
  EXPECT_EQ(declared.fields[1].row_shape, std::nullopt);
  EXPECT_EQ(declared.fields[2].row_shape, Shape{2});
  EXPECT_EQ(declared.fields[3].row_shape, Shape{});
  EXPECT_EQ(declared.fields[4].row_shape, std::nullopt);
}

TEST(RecordDecoder, TheTimeDoesNotGrowWithFieldsTimesSections) {
  constexpr int kMany = 60000;
  std::vector<std::string> keys;
  std::vector<EntryFields> entries;
  for (int i = 0; i < kMany; ++i) keys.push_back(cat(i));
  for (const std::string& key : keys) entries.push_back({kMolecule, key, 2, 0});
  std::vector<ByteString> sections;
  for (int i = 0; i < kMany; ++i) sections.push_back(section(kMolecule, cat("unlisted ", i % 10), 2, {}));
  const RecordDecoder decoder = decoder_for(entries);
  const ByteString whole = record(0, sections);
  const auto start = test::cpu_time();
  EXPECT_EQ(visit(decoder, whole).fields.size(), size_t{kMany});
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(3));  // milliseconds; many seconds if it did
}

using test::SeenField;
using test::tensor;

struct Case {
  const char* name;
  ByteString section;
  EntryFields entry;
  FieldType type;
  Shape row_shape;
};

constexpr FieldType kMoleculeF64{Level::molecule, ValueKind::numeric, DType::float64};
constexpr FieldType kAtomF64{Level::atom, ValueKind::numeric, DType::float64};

FieldType molecule_of(DType dtype) { return {Level::molecule, ValueKind::numeric, dtype}; }
FieldType atom_of(DType dtype) { return {Level::atom, ValueKind::numeric, dtype}; }

// Every tag at a place of its own, in a molecule of two atoms.
TEST(RecordValue, EveryTypeTag) {
  const Case cases[] = {
      {"f64", section(kMolecule, "a", 0, ByteString().put(0.5)), {kMolecule, "a", 0, 8}, kMoleculeF64, {}},
      {"i64",
       section(kMolecule, "a", 1, ByteString().put<int64_t>(-3)),
       {kMolecule, "a", 1, 8},
       molecule_of(DType::int64),
       {}},
      {"f64[]", section(kMolecule, "a", 3, ByteString().zeros(24)), {kMolecule, "a", 3, 24}, kMoleculeF64, {3}},
      {"f32[][3]",
       section(kMolecule, "a", 4, ByteString().zeros(12)),
       {kMolecule, "a", 4, 12},
       molecule_of(DType::float32),
       {1, 3}},
      {"i64[]", section(kMolecule, "a", 5, ByteString()), {kMolecule, "a", 5, 0}, molecule_of(DType::int64), {0}},
      {"f32[]",
       section(kMolecule, "a", 6, ByteString().zeros(8)),
       {kMolecule, "a", 6, 8},
       molecule_of(DType::float32),
       {2}},
      {"f64[][3]", section(kMolecule, "a", 7, ByteString()), {kMolecule, "a", 7, 0}, kMoleculeF64, {0, 3}},
      {"i32[]",
       section(kMolecule, "a", 8, ByteString().zeros(4)),
       {kMolecule, "a", 8, 4},
       molecule_of(DType::int32),
       {1}},
      {"atom f64[]", section(kAtom, "a", 3, ByteString().zeros(16)), {kAtom, "a", 3, 8, true}, kAtomF64, {}},
      {"atom f32[][3]",
       section(kAtom, "a", 4, ByteString().zeros(24)),
       {kAtom, "a", 4, 12, true},
       atom_of(DType::float32),
       {3}},
      {"atom i64[]",
       section(kAtom, "a", 5, ByteString().zeros(16)),
       {kAtom, "a", 5, 8, true},
       atom_of(DType::int64),
       {}},
      {"atom f32[]",
       section(kAtom, "a", 6, ByteString().zeros(8)),
       {kAtom, "a", 6, 4, true},
       atom_of(DType::float32),
       {}},
      {"atom f64[][3]", section(kAtom, "a", 7, ByteString().zeros(48)), {kAtom, "a", 7, 24, true}, kAtomF64, {3}},
      {"atom i32[]",
       section(kAtom, "a", 8, ByteString().zeros(8)),
       {kAtom, "a", 8, 4, true},
       atom_of(DType::int32),
       {}},
      {"pbc", section(kBuiltin, "pbc", 9, {1, 0, 7}), {kBuiltin, "pbc", 9, 3}, molecule_of(DType::boolean), {3}},
      {"cell", section(kBuiltin, "cell", 10, ByteString().zeros(72)), {kBuiltin, "cell", 10, 72}, kMoleculeF64, {3, 3}},
      {"energy",
       section(kBuiltin, "energy", 11, ByteString().put(1.5F)),
       {kBuiltin, "energy", 11, 4},
       molecule_of(DType::float32),
       {}},
      {"stress",
       section(kBuiltin, "stress", 12, ByteString().zeros(36)),
       {kBuiltin, "stress", 12, 36},
       molecule_of(DType::float32),
       {3, 3}},
      {"forces",
       section(kBuiltin, "forces", 7, ByteString().zeros(48)),
       {kBuiltin, "forces", 7, 24, true},
       kAtomF64,
       {3}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const SeenField seen = only_field(2, c.section, c.entry);
    EXPECT_EQ(seen.fault, "");
    EXPECT_EQ(seen.scope, static_cast<Scope>(c.entry.kind));
    EXPECT_EQ(seen.key, c.entry.key);
    EXPECT_EQ(seen.type, c.type);
    EXPECT_EQ(seen.row_shape, c.row_shape);
    EXPECT_TRUE(text_of(c.section).ends_with(seen.data));
    const uint64_t rows = c.type.level == Level::atom ? 2 : 1;
    EXPECT_EQ(seen.data.size(), static_cast<uint64_t>(c.row_shape.numel()) * rows * item_bytes(c.type.dtype));
  }
}

TEST(RecordValue, StringsAndNone) {
  EXPECT_EQ(only_field(0, section(kBuiltin, "name", 2, ByteString("H2O")), {kBuiltin, "name", 2, 0}).data, "H2O");
  EXPECT_EQ(only_field(0, section(kMolecule, "", 2, ByteString()), {kMolecule, "", 2, 0}).data, "");
  const SeenField none = only_field(1, section(kMolecule, "n", 13, ByteString()), {kMolecule, "n", 13, 0});
  EXPECT_EQ(none.type.kind, ValueKind::none);
  EXPECT_EQ(none.fault, "");
}

SeenField molecule_tensor(uint8_t tag, const ByteString& payload) {
  return only_field(2, section(kMolecule, "t", tag, payload), {kMolecule, "t", tag, 0});
}

SeenField atom_tensor(uint32_t n_atoms, uint8_t tag, const ByteString& payload) {
  return only_field(n_atoms, section(kAtom, "t", tag, payload), {kAtom, "t", tag, 0, true});
}

TEST(RecordValue, TensorsCarryTheirShape) {
  const SeenField seen = molecule_tensor(16, tensor<int32_t>({2, 1}, {7, -8}));
  EXPECT_EQ(seen.type.dtype, DType::int32);
  EXPECT_EQ(seen.row_shape, (Shape{2, 1}));
  EXPECT_EQ(seen.data, text_of(ByteString().put_all<int32_t>({7, -8})));
  EXPECT_EQ(molecule_tensor(15, tensor<double>({}, {1})).row_shape, Shape{});
  EXPECT_EQ(molecule_tensor(14, tensor<float>({3}, {1, 2, 3})).row_shape, Shape{3});
  EXPECT_EQ(molecule_tensor(17, tensor<int64_t>({4, 0, 9}, {})).row_shape, (Shape{4, 0, 9}));
  EXPECT_EQ(atom_tensor(2, 14, tensor<float>({2, 1, 2}, {1, 2, 3, 4})).row_shape, (Shape{1, 2}));
  EXPECT_EQ(atom_tensor(3, 14, tensor<float>({3}, {1, 2, 3})).row_shape, Shape{});
  EXPECT_EQ(atom_tensor(0, 15, tensor<double>({0, 5}, {})).row_shape, Shape{5});
}

TEST(RecordValue, DamagedTensorsAreFaults) {
  const auto molecule_fault = [](const ByteString& payload) { return molecule_tensor(14, payload).fault; };
  const auto atom_fault = [](const ByteString& payload) { return atom_tensor(2, 14, payload).fault; };
  // A record of two atoms has 30 bytes of geometry, the section header another 8: payloads begin at 40.
  const std::string at = " (field 't', offset 40)";
  EXPECT_EQ(molecule_fault({}), "tensor rank: expected 1 bytes, got 0" + at);
  EXPECT_EQ(molecule_fault({1, 2, 0}), "tensor dimension: expected 4 bytes, got 2 (field 't', offset 41)");
  EXPECT_EQ(molecule_fault(tensor<float>({2}, {1})), "tensor values: expected 8 bytes, got 4" + at);
  EXPECT_EQ(molecule_fault(tensor<float>({2}, {1, 2, 3})), "tensor values: expected 8 bytes, got 12" + at);
  EXPECT_EQ(molecule_fault(tensor<float>({2, 0}, {1})), "tensor values: expected 0 bytes, got 4" + at);
  EXPECT_EQ(atom_fault(tensor<float>({}, {1})), "tensor rank: expected at least 1 for values per atom, got 0" + at);
  EXPECT_EQ(atom_fault(tensor<float>({3, 1}, {1, 2, 3})), "tensor rows: expected 2, got 3" + at);
}

TEST(RecordValue, TensorSizesThatOverflowAreFaultsEvenWithoutValues) {
  const uint32_t most = 0xFFFFFFFF;
  EXPECT_EQ(molecule_tensor(14, tensor<float>({most, most, 2}, {})).fault,
            "tensor size: 17179869180 x 4294967295 overflows 64 bits (field 't', offset 40)");
  EXPECT_EQ(
      molecule_tensor(14, tensor<float>({most, most / 8, 0}, {})).fault,
      "tensor size: expected less than 4 GiB, got dimensions of 9223372017527422980 bytes (field 't', offset 40)");
  EXPECT_EQ(molecule_tensor(14, tensor<float>({most, most / 16, 0}, {})).row_shape, (Shape{most, most / 16, 0}));
}

TEST(RecordValue, TheHighestRankIs62) {
  ByteString payload;
  payload.put<uint8_t>(62);
  for (int i = 0; i < 62; ++i) payload.put<uint32_t>(1);
  payload.put<float>(3);
  EXPECT_EQ(molecule_tensor(14, payload).row_shape.rank(), 62);
  EXPECT_EQ(molecule_tensor(14, ByteString().put<uint8_t>(63).zeros(63 * 4)).fault,
            "tensor rank: expected at most 62, got 63 (field 't', offset 40)");
  EXPECT_EQ(molecule_tensor(14, ByteString().put<uint8_t>(255).zeros(255 * 4)).fault,
            "tensor rank: expected at most 62, got 255 (field 't', offset 40)");
}

// The fault of the only field, with a schema and without; they word wrong lengths differently.
std::string bare_fault(uint32_t n_atoms, const ByteString& section) {
  return visit(decoder_for({}), record(n_atoms, {section})).fields.at(0).fault;
}
std::string listed_fault(uint32_t n_atoms, const ByteString& section, const EntryFields& entry) {
  return visit(decoder_for({entry}), record(n_atoms, {section})).fields.at(0).fault;
}

TEST(RecordValue, AWrongLengthIsAFaultOfThatProperty) {
  const ByteString scalar = section(kMolecule, "id", 1, ByteString().zeros(7));
  EXPECT_EQ(bare_fault(0, scalar), "payload length: 7 is invalid for type tag 1 and 0 atoms (field 'id', offset 15)");
  EXPECT_EQ(listed_fault(0, scalar, {kMolecule, "id", 1, 8}),
            "payload length: expected 8, got 7 (field 'id', offset 15)");
  const ByteString rows = section(kAtom, "q", 3, ByteString().zeros(16));
  EXPECT_EQ(bare_fault(1, rows), "payload length: 16 is invalid for type tag 3 and 1 atoms (field 'q', offset 27)");
  EXPECT_EQ(listed_fault(1, rows, {kAtom, "q", 3, 8, true}),
            "payload length: expected 8, got 16 (field 'q', offset 27)");
  const ByteString array = section(kMolecule, "a", 3, ByteString().zeros(16));
  EXPECT_EQ(bare_fault(0, array), "");
  EXPECT_EQ(listed_fault(0, array, {kMolecule, "a", 3, 8}),
            "payload length: expected 8, got 16 (field 'a', offset 14)");
}

TEST(RecordValue, NoneWithAPayloadAndTextThatIsNotUtf8AreFaults) {
  const ByteString none = section(kMolecule, "n", 13, {0});
  EXPECT_EQ(bare_fault(0, none), "payload length: 1 is invalid for type tag 13 and 0 atoms (field 'n', offset 14)");
  EXPECT_EQ(listed_fault(0, none, {kMolecule, "n", 13, 0}), "payload length: expected 0, got 1 (field 'n', offset 14)");
  const ByteString text = section(kMolecule, "s", 2, {0xC3});
  EXPECT_EQ(bare_fault(0, text), "string: expected UTF-8, got other bytes (field 's', offset 14)");
  EXPECT_EQ(listed_fault(0, text, {kMolecule, "s", 2, 0}),
            "string: expected UTF-8, got other bytes (field 's', offset 14)");
}

TEST(RecordValue, ATagThatIsIllegalOrNotTheSchemasIsAFault) {
  EXPECT_EQ(bare_fault(0, section(kMolecule, "k", 11, ByteString().zeros(4))),
            "type tag: 11 is invalid here (field 'k', offset 14)");
  EXPECT_EQ(bare_fault(0, section(kMolecule, "k", 99, {})), "type tag: 99 is invalid here (field 'k', offset 14)");
  EXPECT_EQ(bare_fault(0, section(kAtom, "k", 0, ByteString().zeros(8))),
            "type tag: 0 is invalid here (field 'k', offset 14)");
  EXPECT_EQ(listed_fault(0, section(kMolecule, "k", 1, ByteString().zeros(8)), {kMolecule, "k", 0, 8}),
            "type tag: expected 0 as in the schema, got 1 (field 'k', offset 14)");
}

TEST(RecordValue, AFaultLeavesTheOtherFieldsReadable) {
  const CollectingVisitor seen =
      visit(decoder_for({}),
            record(0, {section(kMolecule, "bad", 1, {1}), section(kMolecule, "good", 2, ByteString("yes"))}));
  ASSERT_EQ(seen.fields.size(), 2U);
  EXPECT_NE(seen.fields[0].fault, "");
  EXPECT_EQ(seen.fields[1].data, "yes");
}

TEST(RecordValue, ADamagedBuiltinSpoilsTheMolecule) {
  const ByteString forces = record(2, {section(kBuiltin, "forces", 4, ByteString().zeros(23))});
  EXPECT_EQ(corrupt([&] { visit(decoder_for({}), forces); }),
            "payload length: 23 is invalid for type tag 4 and 2 atoms (field 'forces', offset 45)");
  EXPECT_EQ(corrupt([&] { visit(decoder_for({{kBuiltin, "forces", 4, 12, true}}), forces); }),
            "payload length: expected 24, got 23 (field 'forces', offset 45)");
  EXPECT_EQ(corrupt([] { visit(decoder_for({}), record(0, {section(kBuiltin, "energy", 1, ByteString().zeros(8))})); }),
            "type tag: 1 is invalid here (field 'energy', offset 19)");
  EXPECT_EQ(corrupt([] { visit(decoder_for({}), record(0, {section(kBuiltin, "name", 2, {0xFF})})); }),
            "string: expected UTF-8, got other bytes (field 'name', offset 17)");
}

}  // namespace
}  // namespace atompack::atp
