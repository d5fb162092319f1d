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

SeenField molecule_tensor(uint8_t tag, const ByteString& payload) {
  return only_field(2, section(kMolecule, "t", tag, payload), {kMolecule, "t", tag, 0});
}

SeenField atom_tensor(uint32_t n_atoms, uint8_t tag, const ByteString& payload) {
  return only_field(n_atoms, section(kAtom, "t", tag, payload), {kAtom, "t", tag, 0, true});
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
