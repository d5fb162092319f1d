#include "formats/parsed/index.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"

namespace atompack::parsed {
namespace {

Index sample() {
  Index index;
  index.stamp = {1000, 5, 6};
  index.entries = {{500, 100, 3, 200}, {400, 100, 0, 64}, {600, 400, 2, 128}};
  index.ends_open = true;
  index.survey.add(Level::molecule, "energy", Kind::real, {});
  index.survey.add(Level::atom, "forces", Kind::real, std::array<int64_t, 1>{3});
  index.survey.add(Level::molecule, "x", Kind::integer, std::array<int64_t, 1>{2});
  index.survey.add(Level::molecule, "x", Kind::text, {});
  index.survey.set_has_cells();
  return index;
}

TEST(Index, RoundTrip) {
  const std::vector<std::byte> bytes = encode_index(sample());
  const Index again = decode_index(bytes);
  EXPECT_EQ(encode_index(again), bytes);
  EXPECT_EQ(again.entries[2].place, 600U);
  EXPECT_EQ(again.stamp.nanoseconds, 6);
  ASSERT_EQ(again.survey.fields().size(), 3U);
  EXPECT_EQ(again.survey.fields()[2].kind, Kind::text);
  EXPECT_FALSE(again.survey.fields()[2].shape);
  EXPECT_EQ(encode_index(decode_index(encode_index(Index()))), encode_index(Index()));
}

TEST(Index, EveryChangeIsDetected) {
  const std::vector<std::byte> bytes = encode_index(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_THROW(decode_index(Bytes(bytes).first(n)), CorruptFileError) << n;
    std::vector<std::byte> changed = bytes;
    changed[n] ^= std::byte{4};
    EXPECT_THROW(decode_index(changed), DataError) << n;
  }
}

TEST(Index, EntriesThatTheFileHasNoRoomFor) {
  const auto fails = [](const auto& change) {
    Index index = sample();
    change(index);
    EXPECT_THROW(decode_index(encode_index(index)), CorruptFileError);
  };
  fails([](Index& index) { index.entries[1].place = 901; });
  fails([](Index& index) { index.entries[1].bytes = 601; });
  fails([](Index& index) { index.entries[1].place = ~uint64_t{0}; });
  fails([](Index& index) { index.entries[1].n_atoms = 1 << 20; });
  fails([](Index& index) { index.max_ratio = 1 << 20; });
  fails([](Index& index) { index.entries[1].record_bytes = uint64_t{1} << 40; });
}

TEST(Survey, FieldsOfTwoParts) {
  Survey first = sample().survey, second;
  second.add(Level::molecule, "energy", Kind::text, {});
  second.add(Level::atom, "forces", Kind::real, std::array<int64_t, 1>{4});
  second.add(Level::atom, "energy", Kind::flag, {});
  first.add(second);
  ASSERT_EQ(first.fields().size(), 4U);
  EXPECT_EQ(first.fields()[0].kind, Kind::text);
  EXPECT_FALSE(first.fields()[1].shape);
  EXPECT_EQ(first.fields()[3].level, Level::atom);
}

}  // namespace
}  // namespace atompack::parsed
