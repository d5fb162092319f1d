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

}  // namespace
}  // namespace atompack::atp
