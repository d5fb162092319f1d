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
using test::decoder_for;
using test::EntryFields;
using test::kAtom;
using test::kBuiltin;
using test::kMolecule;
using test::only_field;
using test::record;
using test::section;
using test::visit;

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

TEST(RecordValue, TensorSizesThatOverflowAreFaultsEvenWithoutValues) {
  const uint32_t most = 0xFFFFFFFF;
  EXPECT_EQ(molecule_tensor(14, tensor<float>({most, most, 2}, {})).fault,
            "tensor size: 17179869180 x 4294967295 overflows 64 bits (field 't', offset 40)");
  EXPECT_EQ(
      molecule_tensor(14, tensor<float>({most, most / 8, 0}, {})).fault,
      "tensor size: expected less than 4 GiB, got dimensions of 9223372017527422980 bytes (field 't', offset 40)");
  EXPECT_EQ(molecule_tensor(14, tensor<float>({most, most / 16, 0}, {})).row_shape, (Shape{most, most / 16, 0}));
}

}  // namespace
}  // namespace atompack::atp
