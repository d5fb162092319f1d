#include "formats/torch_cache/build/encoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/torch_cache/entries.h"
#include "formats/torch_cache/rows/heap.h"
#include "formats/torch_cache/structure.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::Entries;

Bytes object(const EncodedEntries& encoded, size_t entry, uint32_t number, uint64_t bytes) {
  const uint64_t at = GlobalHeap(io::MemoryBytes(encoded.bytes), 0).find(encoded.records[entry].address, number, bytes);
  return Bytes(encoded.bytes).subspan(at, bytes);
}

Structure structure(const EncodedEntries& encoded, size_t entry) {
  return decode_structure(object(encoded, entry, kStructureObject, encoded.records[entry].structure_bytes));
}

TEST(Encoder, RecordsSayWhatEntriesHold) {
  const EncodedEntries encoded = encode_entries(Entries({3, 2, 0, 4}).columns);
  ASSERT_EQ(encoded.records.size(), 4U);
  const auto& records = encoded.records;
  EXPECT_EQ(records[0].n_atoms, 3);
  EXPECT_EQ(records[0].energy, 0);
  EXPECT_TRUE(std::isnan(records[3].energy));
  EXPECT_TRUE(records[0].has_forces && records[0].has_derivatives);
  EXPECT_FALSE(records[1].has_forces || records[1].has_derivatives);
  EXPECT_EQ(records[1].n_edges, 0);
  EXPECT_EQ(records[3].n_edges, 4);
  EXPECT_EQ(records[3].n_triplets, 2);
  EXPECT_EQ(records[0].name, "m0");
  EXPECT_EQ(records[1].name, "");
  uint64_t end = 0;
  for (const EntryRecord& record : records) {
    EXPECT_EQ(record.address, end);
    end += load_le<uint64_t>(&encoded.bytes[record.address + 8]);
  }
  EXPECT_EQ(end, encoded.bytes.size());
}

TEST(Encoder, StructuresComeBack) {
  const EncodedEntries encoded = encode_entries(Entries({3, 2, 0, 4}).columns);
  const Structure first = structure(encoded, 0), second = structure(encoded, 1), last = structure(encoded, 3);
  EXPECT_EQ(first.species, std::vector<std::string>(3, "H"));
  EXPECT_EQ(first.positions[8], 8.25);
  EXPECT_EQ(first.forces, first.positions);
  EXPECT_FALSE(first.cell || first.pbc);
  EXPECT_EQ(first.name, "m0");
  EXPECT_FALSE(second.forces || second.name);
  EXPECT_EQ(second.energy, -1);
  EXPECT_EQ(second.cell->at(8), 1.5);
  EXPECT_FALSE(last.energy);
  EXPECT_EQ(structure(encoded, 2).n_atoms(), 0U);
}

TEST(Encoder, AtomsAreNumberedInTheirMolecule) {
  const EncodedEntries encoded = encode_entries(Entries({3, 2, 0, 4}).columns);
  const Bytes centers = object(encoded, 3, kFirstDerivativeObject, 4 * sizeof(int64_t));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(load_le<int64_t>(&centers[8 * static_cast<size_t>(i)]), i);
  const Bytes gradients = object(encoded, 3, kFirstDerivativeObject + 2, 4 * 6 * sizeof(double));
  EXPECT_EQ(load_le<double>(gradients.data()), 3 * 6 + 0.3);
}

TEST(Encoder, ValuesAreStoredInTheTypeOfTheFile) {
  const EncodedEntries encoded = encode_entries(Entries({3, 2}, DType::float32).columns);
  const Bytes features = object(encoded, 1, kFeaturesObject, 2 * 6 * sizeof(float));
  EXPECT_EQ(load_le<float>(features.data()), static_cast<float>(18.1));
  EXPECT_EQ(structure(encoded, 0).positions[0], 0.25);
}

TEST(Encoder, OfFeaturesOrDerivativesAlone) {
  Entries entries({3});
  entries.columns.derivatives.reset();
  const EncodedEntries features = encode_entries(entries.columns);
  EXPECT_FALSE(features.records[0].has_derivatives);
  EXPECT_THROW(object(features, 0, kFirstDerivativeObject, 24), CorruptFileError);
  Entries others({3});
  others.columns.features.reset();
  const EncodedEntries derivatives = encode_entries(others.columns);
  EXPECT_THROW(object(derivatives, 0, kFeaturesObject, 144), CorruptFileError);
  EXPECT_EQ(object(derivatives, 0, kFirstDerivativeObject, 24).size(), 24U);
}

TEST(Encoder, RefusesAtomsOfNoElement) {
  for (const int64_t number : {-1, 2, 119, 255}) {
    Entries entries({2});
    const std::vector<int64_t> numbers{1, number};
    entries.columns.atomic_numbers = numbers;
    EXPECT_EQ(test::message_of<FieldError>([&] { encode_entries(entries.columns); }),
              cat("species: expected an atomic number from 0 to 1, got ", number, " (field 'atomic_numbers')"));
  }
}

TEST(Encoder, OfNoMolecules) {
  const EncodedEntries encoded = encode_entries(Entries(std::vector<int64_t>{}).columns);
  EXPECT_TRUE(encoded.bytes.empty());
  EXPECT_TRUE(encoded.records.empty());
}

}  // namespace
}  // namespace atompack::torch_cache
