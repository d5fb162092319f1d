#include "formats/atp/inspect.h"

#include <gtest/gtest.h>

#include "formats/atp/atp_bytes.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using test::atp_file;
using test::AtpFile;
using test::kDataStart;
using test::kSlotBytes;
using test::record;
using test::TemporaryFile;

AtpFile three_molecules(codec::Codec codec = codec::Codec::none) {
  return atp_file({.records = {record(2), record(0), record(300)}, .schema = test::schema({}), .codec = codec});
}

SpaceUse measure(const TemporaryFile& file) { return measure_space(file.path(), take_snapshot(file.path())); }

TEST(DescribeSlots, TellsAboutFilesThatAreTooShort) {
  const AtpFile made = three_molecules();
  const TemporaryFile file(made.bytes.bytes().first(kSlotBytes + 100));
  const auto slots = describe_slots(file.path());
  EXPECT_FALSE(slots[0].header.has_value());  // its data starts past the file's end
  EXPECT_EQ(slots[1].problem, "header slot: expected 4096 bytes, got 100");
  file.resize(0);
  EXPECT_EQ(describe_slots(file.path())[0].problem, "header slot: expected 4096 bytes, got 0");
}

TEST(MeasureSpace, AddsUpTheIndex) {
  for (const codec::Codec codec : {codec::Codec::none, codec::Codec::lz4, codec::Codec::zstd}) {
    const AtpFile made = three_molecules(codec);
    const TemporaryFile file(made.bytes.bytes());
    const SpaceUse use = measure(file);
    const size_t plain = record(2).size() + record(0).size() + record(300).size();
    EXPECT_EQ(use.n_atoms, 302U);
    EXPECT_EQ(use.decoded_bytes, plain);
    EXPECT_EQ(use.schema_bytes, 9U);
    EXPECT_EQ(use.index_bytes, 68U);
    EXPECT_EQ(use.stored_bytes, made.bytes.size() - kDataStart - 9 - 68);
    EXPECT_EQ(use.stored_bytes == plain, codec == codec::Codec::none);
    EXPECT_EQ(use.dead_bytes(), 0U);
  }
}

TEST(MeasureSpace, KnowsWhatIsDead) {
  AtpFile made = three_molecules();
  // The second entry takes one byte less: that one belongs to nobody.
  made.bytes.writable()[made.entry_at(1) + 8] = std::byte{5};
  const TemporaryFile file(made.bytes.bytes());
  EXPECT_EQ(measure(file).dead_bytes(), 1U);
}

TEST(MeasureSpace, DoesNotGuessWhereRecordsOverlap) {
  AtpFile made = three_molecules();
  made.bytes.writable()[made.entry_at(1) + 8] = std::byte{7};
  const TemporaryFile file(made.bytes.bytes());
  EXPECT_EQ(measure(file).dead_bytes(), std::nullopt);
}

TEST(MeasureSpace, LeavesOutRecordsOutsideTheFile) {
  AtpFile made = three_molecules();
  made.bytes.writable()[made.entry_at(2) + 7] = std::byte{0x7F};
  const TemporaryFile file(made.bytes.bytes());
  const SpaceUse use = measure(file);
  EXPECT_EQ(use.stored_bytes, record(2).size() + record(0).size());
  EXPECT_EQ(use.dead_bytes(), record(300).size());
}

}  // namespace
}  // namespace atompack::atp
