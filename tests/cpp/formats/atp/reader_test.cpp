#include "formats/atp/reader.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>

#include "formats/atp/atp_bytes.h"
#include "formats/atp/collecting_visitor.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using codec::Codec;
using test::atp_file;
using test::AtpFile;
using test::ByteString;
using test::CollectingVisitor;
using test::kBuiltin;
using test::kDataStart;
using test::kMolecule;
using test::record;
using test::section;
using test::TemporaryFile;

// A file on disk and a reader of it; messages come without the path in front.
class Opened {
 public:
  explicit Opened(const ByteString& bytes, const ReadOptions& options = {})
      : file(bytes.bytes()), reader(file.path(), take_snapshot(file.path()), options) {}

  CollectingVisitor read(int64_t i) const {
    std::vector<std::byte> scratch(static_cast<size_t>(reader.extent(i).decoded_bytes));
    CollectingVisitor visitor;
    reader.visit(i, reader.decode(i, scratch), visitor);
    return visitor;
  }

  std::string error_of(int64_t i) const {
    const std::string message = test::corrupt([&] { read(i); });
    return message.starts_with(file.path() + ": ") ? message.substr(file.path().size() + 2) : message;
  }

  TemporaryFile file;
  Reader reader;
};

std::string open_error(const ByteString& bytes) {
  const TemporaryFile file(bytes.bytes());
  const std::string message = test::data_error([&] { Reader(file.path(), take_snapshot(file.path()), {}); });
  return message.starts_with(file.path() + ": ") ? message.substr(file.path().size() + 2) : message;
}

ByteString energy(double value) { return section(kBuiltin, "energy", 0, ByteString().put(value)); }

std::vector<ByteString> three_records() {
  return {record(2, {energy(-1.25)}), record(0),
          record(70, {section(kMolecule, "note", 2, ByteString(std::string(500, 'n')))})};
}

ByteString three_schema() { return test::schema({{kBuiltin, "energy", 0, 8}, {kMolecule, "note", 2, 0}}); }

TEST(Reader, ASchemaBehindTheIndexIsStillInsideTheFile) {
  AtpFile made = atp_file({.records = three_records()});
  const ByteString schema = three_schema();
  made.header.schema_offset = made.bytes.size();
  made.header.schema_length = schema.size();
  made.bytes.append(schema);
  std::ranges::copy(test::header_slot(made.header).bytes(), made.bytes.writable().begin() + test::kSlotBytes);
  const Opened opened(made.bytes);
  EXPECT_EQ(opened.reader.schemas()[0].fields.size(), 2U);
  EXPECT_EQ(opened.read(0).fields.at(0).declaration, 0);
}

TEST(Reader, ASchemaWithoutAnIndexIsStillInsideTheFile) {
  Header header = test::fresh_header();
  const ByteString schema = three_schema();
  header.schema_offset = kDataStart + 5000;
  header.schema_length = schema.size();
  const ByteString slot = test::header_slot(header);
  const Opened opened(ByteString(slot).append(slot).zeros(5000).append(schema));
  EXPECT_EQ(opened.reader.size(), 0);
  EXPECT_EQ(opened.reader.schemas()[0].fields.size(), 2U);
}

// An index entry of molecule 0 that is wrong, and the error about it.
struct Lie {
  size_t at;
  uint32_t value;
  std::string message;
};

TEST(Reader, EntriesAreHeldAgainstTheFile) {
  const AtpFile made = atp_file({.records = three_records(), .schema = three_schema()});
  const uint64_t end = made.bytes.size();
  const Lie lies[] = {
      {0, 8191, cat("index entry: expected a record between 8192 and ", end, ", got 53 bytes at 8191 (molecule 0)")},
      {4, 1, cat("index entry: expected a record between 8192 and ", end, ", got 53 bytes at 4294975488 (molecule 0)")},
      {8, 0xFFFFFFFF,
       cat("index entry: expected a record between 8192 and ", end, ", got 4294967295 bytes at 8192 (molecule 0)")},
      {12, 54, "index entry: 53 stored bytes (none) hold at most 53, got an uncompressed size of 54 (molecule 0)"},
      {12, 52, "index entry: 53 stored bytes (none) hold at most 53, got an uncompressed size of 52 (molecule 0)"},
      {16, 4, "index entry: a record of 4 atoms takes at least 58 bytes, got 53 (molecule 0)"},
      {16, 0xFFFFFFFF,
       "index entry: a record of 4294967295 atoms takes at least 55834574841 bytes, got 53 (molecule 0)"},
      {16, 3, "atom count: expected 3 as in the index, got 2 (molecule 0, offset 8192)"},
  };
  for (const Lie& lie : lies) {
    ByteString bytes = made.bytes;
    bytes.patch(made.entry_at(0) + lie.at, lie.value);
    const Opened opened(bytes);
    opened.reader.prefetch(0);  // a hint: no error of its own
    EXPECT_EQ(opened.error_of(0), lie.message);
    EXPECT_EQ(opened.read(2).n_atoms, 70);
  }
}

TEST(Reader, OffsetsInDecompressedRecordsSaySo) {
  ByteString cut = record(2, {energy(1)});
  cut.cut(cut.size() - 1);
  const auto error_with = [&](Codec codec) {
    return Opened(atp_file({.records = {record(0), cut}, .schema = test::schema({}), .codec = codec}).bytes)
        .error_of(1);
  };
  EXPECT_EQ(error_with(Codec::none), "payload: expected 8 bytes, got 7 (molecule 1, offset 8243)");
  EXPECT_EQ(error_with(Codec::lz4),
            "payload: expected 8 bytes, got 7 (molecule 1, offset 45 of the decompressed record)");
}

TEST(Reader, AnotherFileUnderTheNumberOfTheFirstIsStale) {
  const AtpFile made = atp_file({.records = three_records(), .schema = three_schema()});
  const TemporaryFile file(made.bytes.bytes());
  const Snapshot now = take_snapshot(file.path());
  const auto stale = [&](auto change) {
    Snapshot other = now;  // of a file that is gone, whose number this one got
    change(other.header);
    try {
      const Reader after(file.path(), other, {});
      return false;
    } catch (const IoError& error) {
      return error.code() == ESTALE;
    }
  };
  EXPECT_FALSE(stale([](Header&) {}));
  EXPECT_TRUE(stale([](Header& header) { ++header.generation; }));
  EXPECT_TRUE(stale([](Header& header) { header.n_molecules = 2; }));
}

TEST(Reader, ReadsAtomCountsWithoutRecords) {
  AtpFile made = atp_file({.records = three_records(), .schema = three_schema()});
  std::ranges::fill(made.bytes.writable().subspan(kDataStart, 100), std::byte{0xEE});
  const TemporaryFile file(made.bytes.bytes());
  std::vector<int64_t> counts(3, -1);
  read_atom_counts(file.path(), take_snapshot(file.path()), counts);
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 0, 70}));
  const TemporaryFile empty(atp_file({}).bytes.bytes());
  read_atom_counts(empty.path(), take_snapshot(empty.path()), {});
}

ByteString schema_of_slots(const std::vector<uint32_t>& slots) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < slots.size(); ++i) keys.push_back(cat("k", 1000 + i));
  std::vector<test::EntryFields> entries;
  for (size_t i = 0; i < slots.size(); ++i) entries.push_back({kMolecule, keys[i], 3, slots[i]});
  return test::schema(entries);
}

TEST(Reader, LargeSlotsMustBeBorneOutByARecord) {
  const ByteString large = record(0, {section(kMolecule, "k1000", 3, ByteString().zeros(80000))});
  EXPECT_NO_THROW(Opened(atp_file({.records = {record(0), large}, .schema = schema_of_slots({80000})}).bytes));
  EXPECT_NO_THROW(
      Opened(atp_file({.records = {large}, .schema = schema_of_slots({80000, 8}), .codec = Codec::zstd}).bytes));
  EXPECT_EQ(open_error(atp_file({.records = {record(0), large}, .schema = schema_of_slots({8, 800000})}).bytes),
            "schema slot bytes: the longest record holds 80018, got 800000 (field 'k1001')");
  EXPECT_EQ(open_error(atp_file({.records = {record(0)}, .schema = schema_of_slots({0xFFFFFFF8})}).bytes),
            "schema slot bytes: the longest record holds 6, got 4294967288 (field 'k1000')");
}

TEST(Reader, ManySlotsMustBeBorneOutByAllRecordsTogether) {
  const ByteString large = record(0, {section(kMolecule, "k1000", 3, ByteString().zeros(80000))});
  EXPECT_EQ(
      open_error(
          atp_file({.records = {large, large}, .schema = schema_of_slots(std::vector<uint32_t>(1000, 65536))}).bytes),
      "schema slot bytes: all records hold 160036, got 65536000 in all");
}

TEST(Reader, TheSameRecordOverAndOverBearsNoSlots) {
  const ByteString large = record(0, {section(kMolecule, "k1000", 3, ByteString().zeros(80000))});
  AtpFile made =
      atp_file({.records = std::vector(5, large), .schema = schema_of_slots(std::vector<uint32_t>(6, 65536))});
  EXPECT_EQ(Opened(made.bytes).reader.size(), 5);
  for (size_t i = 1; i < 5; ++i) made.bytes.patch<uint64_t>(made.entry_at(i), kDataStart);
  EXPECT_EQ(Opened(made.bytes).reader.size(), 5);  // no more bytes than the file has
}

TEST(Reader, ADamagedEntryDoesNotHideTheRecordThatBearsALargeSlot) {
  const ByteString large = record(0, {section(kMolecule, "k1000", 3, ByteString().zeros(80000))});
  AtpFile made = atp_file({.records = {record(0), large}, .schema = schema_of_slots({80000})});
  made.bytes.patch<uint32_t>(made.entry_at(0) + 12, 0xFFFFFFFF);
  const Opened opened(made.bytes);
  EXPECT_EQ(opened.read(1).fields.size(), 1U);
  EXPECT_NE(opened.error_of(0), "nothing was thrown");
}

TEST(Reader, AHugeEmptyIndexTakesNoMemory) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves no room for a mapping of 1.4 TB, and has an allocator without mallinfo2()";
#endif
  AtpFile made = atp_file({.schema = three_schema()});
  made.header.n_molecules = uint64_t{1} << 36;
  made.header.index_length = 8 + made.header.n_molecules * IndexEntry::kEncodedSize;
  std::ranges::copy(test::header_slot(made.header).bytes(), made.bytes.writable().begin() + test::kSlotBytes);
  made.bytes.patch(made.header.index_offset, made.header.n_molecules);
  const TemporaryFile file(made.bytes.bytes());
  file.resize(made.header.committed_end());
  const size_t before = ::mallinfo2().uordblks;
  const Reader reader(file.path(), take_snapshot(file.path()), {});
  EXPECT_LT(::mallinfo2().uordblks, before + (size_t{1} << 20));
  EXPECT_EQ(reader.size(), int64_t{1} << 36);
  EXPECT_FALSE(test::corrupt([&] { reader.extent(reader.size() - 1); }).empty()) << "its entry is all zeros";
}

}  // namespace
}  // namespace atompack::atp
