#include "formats/atp/index.h"

#include <gtest/gtest.h>

#include <limits>

#include "byte_string.h"
#include "formats/atp/atp_bytes.h"
#include "formats/atp/reader.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

TEST(IndexEntry, AcceptsRecordsBetweenTheBounds) {
  EXPECT_NO_THROW((IndexEntry{8192, 808, 0, 0}.validate(8192, 9000)));
  EXPECT_NO_THROW((IndexEntry{9000, 0, 0, 0}.validate(8192, 9000)));
}

TEST(IndexEntry, RefusesRecordsThatReachOutside) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const IndexEntry outside[] = {{8191, 1, 0, 0}, {8192, 809, 0, 0},        {9001, 0, 0, 0},
                                {kMax, 1, 0, 0}, {8193, 0xFFFFFFFF, 0, 0}, {kMax - 0xFFFFFFFE, 0xFFFFFFFF, 0, 0}};
  for (const IndexEntry& entry : outside) {
    EXPECT_EQ(test::corrupt([&] { entry.validate(8192, 9000); }),
              cat("index entry: expected a record between 8192 and 9000, got ", entry.stored_bytes, " bytes at ",
                  entry.offset));
  }
}

using test::atp_file;
using test::AtpFile;
using test::ByteString;
using test::kAtom;
using test::kBuiltin;
using test::kMolecule;
using test::record;
using test::section;
using test::tensor;

// The fields that a file without schema turns out to have.
std::vector<FieldDeclaration> fields_of(const ByteString& bytes) {
  const test::TemporaryFile file(bytes.bytes());
  const Reader reader(file.path(), take_snapshot(file.path()), {});
  return reader.schemas()[0].fields;
}

std::string text_of(const std::vector<FieldDeclaration>& fields) {
  std::string text;
  for (const FieldDeclaration& field : fields) {
    text += cat(int(field.scope), field.key, ' ', field.type.level == Level::atom ? "atom " : "molecule ",
                name_of(field.type.dtype), ' ');
    text += field.row_shape ? cat(*field.row_shape, "; ") : "any; ";
  }
  return text;
}

const ByteString kEnergy = section(kBuiltin, "energy", 0, ByteString().zeros(8));

ByteString array_of(uint32_t n) { return section(kMolecule, "a", 3, ByteString().zeros(8 * n)); }

TEST(Scan, FindsTheUnionSortedByScopeAndKey) {
  const ByteString charges = section(kAtom, "q", 3, ByteString().zeros(8));
  for (const codec::Codec codec : {codec::Codec::none, codec::Codec::lz4, codec::Codec::zstd}) {
    const AtpFile file =
        atp_file({.records = {record(1, {array_of(2), kEnergy}), record(0), record(1, {charges})}, .codec = codec});
    EXPECT_EQ(text_of(fields_of(file.bytes)),
              "0energy molecule float64 (); 1q atom float64 (); 2a molecule float64 (2,); ");
  }
}

TEST(Scan, LeavesShapesOpenThatDiffer) {
  EXPECT_EQ(text_of(fields_of(atp_file({.records = {record(0, {array_of(2)}), record(0, {array_of(3)})}}).bytes)),
            "2a molecule float64 any; ");
  const ByteString matrix = section(kMolecule, "t", 14, tensor<float>({1, 1}, {1}));
  EXPECT_EQ(text_of(fields_of(atp_file({.records = {record(0, {matrix}), record(0, {matrix})}}).bytes)),
            "2t molecule float32 (1, 1); ");
  const ByteString rows = section(kAtom, "t", 14, tensor<float>({1, 2}, {1, 2}));
  EXPECT_EQ(text_of(fields_of(atp_file({.records = {record(1, {rows})}}).bytes)), "1t atom float32 any; ");
}

TEST(Scan, PassesOverWhatCannotBeRead) {
  const ByteString damaged_value = record(0, {section(kMolecule, "id", 1, {1}), kEnergy});
  AtpFile file = atp_file({.records = {record(0, {array_of(1)}), damaged_value, record(2)}});
  file.bytes.patch<uint64_t>(file.entry_at(0), 1);
  file.bytes.patch<uint32_t>(file.entry_at(2) + 16, 1);
  EXPECT_EQ(text_of(fields_of(file.bytes)), "0energy molecule float64 (); ");
}

TEST(Scan, OfAnEmptyFileFindsNothing) {
  EXPECT_TRUE(fields_of(atp_file({}).bytes).empty());
  EXPECT_TRUE(
      fields_of(test::header_slot(test::fresh_header()).append(test::header_slot(test::fresh_header()))).empty());
}

TEST(Scan, RecordsThatLieOverOneAnotherAreRefusedBeforeTheyTakeForEver) {
  AtpFile file = atp_file({.records = std::vector(20, record(40))});
  for (size_t i = 0; i < 20; ++i) file.bytes.patch<uint64_t>(file.entry_at(i), test::kDataStart);
  EXPECT_EQ(fields_of(file.bytes).size(), 0U);  // the same bytes again and again, but no more than the file has
  const ByteString large = record(2000);
  AtpFile overlapping = atp_file({.records = {large, large, large}});
  ByteString index;
  index.put<uint64_t>(1000);
  for (int i = 0; i < 1000; ++i) {
    index.put<uint64_t>(test::kDataStart)
        .put(static_cast<uint32_t>(large.size()))
        .put(static_cast<uint32_t>(large.size()))
        .put<uint32_t>(2000);
  }
  Header header = overlapping.header;
  header.generation = 2;
  header.n_molecules = 1000;
  header.index_offset = overlapping.bytes.size();
  header.index_length = index.size();
  const ByteString slot = test::header_slot(header);
  std::ranges::copy(slot.bytes(), overlapping.bytes.writable().begin());
  EXPECT_NE(test::corrupt([&] {
              fields_of(overlapping.bytes.append(index));
            }).find("index: expected separate records, got overlapping ones (offset "),
            std::string::npos);
}

}  // namespace
}  // namespace atompack::atp
