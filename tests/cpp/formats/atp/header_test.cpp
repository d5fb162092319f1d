#include "formats/atp/header.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "formats/atp/atp_bytes.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using test::ByteString;
using test::corrupt;
using test::fresh_header;
using test::header_slot;
using test::kDataStart;
using test::kSlotBytes;
using test::unsupported;

constexpr uint64_t kFileSize = 10000;

// A header of one molecule with schema and index, for a file of kFileSize bytes.
Header committed(uint64_t generation = 1) {
  Header header = fresh_header();
  header.generation = generation;
  header.n_molecules = 1;
  header.schema_offset = 8300;
  header.schema_length = 57;
  header.index_offset = 8357;
  header.index_length = 28;
  return header;
}

ByteString slots(const ByteString& a, const ByteString& b) { return ByteString().append(a).append(b); }

Header choose(const ByteString& bytes, uint64_t file_size = kFileSize) {
  return choose_header(bytes.bytes(), file_size);
}

TEST(HeaderDecode, TheCommittedEndIsBehindAllThatTheHeaderNames) {
  EXPECT_EQ(fresh_header().committed_end(), kDataStart);
  EXPECT_EQ(committed().committed_end(), 8385U);
  Header schema_last = committed();
  schema_last.schema_offset = 9000;
  EXPECT_EQ(schema_last.committed_end(), 9057U);
}

// What is changed in a sound header, and what is said about it.
struct Wrong {
  const char* message;
  std::function<void(Header&)> change;
};

TEST(HeaderDecode, RefusesWhatContradictsTheFileSize) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const Wrong wrongs[] = {
      {"data start: expected 8192 to 10000, got 8191 (offset 16)", [](Header& h) { h.data_start = 8191; }},
      {"codec: expected 0, 1 or 2, got 3 (offset 48)", [](Header& h) { h.codec = static_cast<codec::Codec>(3); }},
      {"schema: expected a range between 8192 and 10000, got 57 bytes at 8191",
       [](Header& h) { h.schema_offset = 8191; }},
      {"schema: expected a range between 8192 and 10000, got 57 bytes at 9944",
       [](Header& h) { h.schema_offset = 9944; }},
      {"schema: expected a range between 8192 and 10000, got 18446744073709551615 bytes at 8300",
       [](Header& h) { h.schema_length = kMax; }},
      {"index: expected a range between 8192 and 10000, got 28 bytes at 18446744073709551615",
       [](Header& h) { h.index_offset = kMax; }},
      {"index: expected a range between 8200 and 10000, got 28 bytes at 8199",
       [](Header& h) { h.data_start = 8200, h.index_offset = 8199; }},
      {"index length: expected 8 + 20 x 2, got 28 (offset 32)", [](Header& h) { h.n_molecules = 2; }},
      {"index length: expected 8 + 20 x 0, got 7 (offset 32)",
       [](Header& h) { h.index_length = 7, h.n_molecules = 0; }},
      {"index length: expected 8 + 20 x 1, got 0 (offset 32)",
       [](Header& h) { h.index_length = 0, h.index_offset = 0; }},
      {"index length: expected 8 + 20 x 18446744073709551615, got 28 (offset 32)",
       [](Header& h) { h.n_molecules = kMax; }},
      // 20 x this wraps to 20.
      {"index length: expected 8 + 20 x 4611686018427387905, got 28 (offset 32)",
       [](Header& h) { h.n_molecules = (uint64_t{1} << 62) + 1; }},
  };
  for (const Wrong& wrong : wrongs) {
    Header header = committed();
    wrong.change(header);
    EXPECT_EQ(corrupt([&] { Header::decode(header_slot(header).bytes(), kFileSize); }), wrong.message);
  }
}

TEST(HeaderDecode, AcceptsRangesUpToTheLastByte) {
  Header header = committed();
  header.schema_offset = kFileSize - header.schema_length;
  EXPECT_NO_THROW(Header::decode(header_slot(header).bytes(), kFileSize));
  header.index_offset = kFileSize - header.index_length;
  EXPECT_NO_THROW(Header::decode(header_slot(header).bytes(), kFileSize));
  header = fresh_header();
  EXPECT_NO_THROW(Header::decode(header_slot(header).bytes(), kDataStart));
  header.data_start = kFileSize;
  EXPECT_NO_THROW(Header::decode(header_slot(header).bytes(), kFileSize));
}

TEST(HeaderDecode, IgnoresThePadding) {
  ByteString slot = header_slot(committed());
  for (const size_t at : {size_t{49}, size_t{51}, size_t{76}, kSlotBytes - 5}) slot.patch<uint8_t>(at, 0xEE);
  test::seal(slot.writable());
  EXPECT_EQ(Header::decode(slot.bytes(), kFileSize).n_molecules, 1U);
}

TEST(ChooseHeader, TheLargerGenerationCounts) {
  EXPECT_EQ(choose(slots(header_slot(committed(2)), header_slot(committed(1)))).generation, 2U);
  EXPECT_EQ(choose(slots(header_slot(committed(2)), header_slot(committed(3)))).generation, 3U);
}

TEST(ChooseHeader, OnATieSlotACounts) {
  Header other = committed();
  other.level = 9;
  EXPECT_EQ(choose(slots(header_slot(committed()), header_slot(other))).level, 0);
  EXPECT_EQ(choose(slots(header_slot(other), header_slot(committed()))).level, 9);
}

TEST(ChooseHeader, OneSoundSlotIsEnough) {
  ByteString bad = header_slot(committed(9));
  bad.patch<uint8_t>(100, 1);
  EXPECT_EQ(choose(slots(bad, header_slot(committed(1)))).generation, 1U);
  EXPECT_EQ(choose(slots(header_slot(committed(1)), bad)).generation, 1U);
  EXPECT_EQ(choose(slots(header_slot(committed(1)), ByteString().zeros(kSlotBytes))).generation, 1U);
}

TEST(ChooseHeader, ACutFileFallsBackToTheOlderCommit) {
  Header newer = committed(2);
  newer.index_offset = 9900;
  const ByteString both = slots(header_slot(newer), header_slot(committed(1)));
  EXPECT_EQ(choose(both).generation, 2U);
  EXPECT_EQ(choose(both, 9927).generation, 1U);
}

TEST(ChooseHeader, WithoutASoundSlotSaysWhatIsWrongWithBoth) {
  Header a = committed();
  a.n_molecules = 3;
  Header b = committed();
  b.data_start = 1;
  EXPECT_EQ(corrupt([&] { choose(slots(header_slot(a), header_slot(b))); }),
            "no valid header slot: slot A: index length: expected 8 + 20 x 3, got 28 (offset 32); "
            "slot B: data start: expected 8192 to 10000, got 1 (offset 4112)");
}

TEST(ChooseHeader, MagicAndVersionOfSlotAAlwaysCount) {
  const ByteString good = header_slot(committed(5));
  ByteString magic = good;
  EXPECT_EQ(corrupt([&] { choose(slots(magic.patch<uint8_t>(0, 'B'), good)); }), "magic: expected 'ATPK' (offset 0)");
  ByteString version = good;
  EXPECT_EQ(unsupported([&] { choose(slots(version.patch<uint32_t>(4, 3), good)); }),
            "file version: expected 2, got 3 (offset 4)");
  EXPECT_EQ(choose(slots(good, version)).generation, 5U);
  EXPECT_EQ(choose(slots(good, magic)).generation, 5U);
}

}  // namespace
}  // namespace atompack::atp
