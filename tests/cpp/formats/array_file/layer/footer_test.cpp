#include "formats/array_file/layer/footer.h"

#include <gtest/gtest.h>

#include "formats/array_file/archive_bytes.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;
using test::MadeArray;
using test::MadeLayer;

TEST(Footer, GivesWhatWasPut) {
  const MadeLayer made(ByteString{1, 2, 3, 4}, {{.shape = {3}, .chunk_shape = {2}, .chunks = {{{1}, 0, 4}}, .fill = -5},
                                                {.name = "b", .deleted = true}});
  const Footer footer(made.archive());
  ASSERT_EQ(footer.n_blocks(), 1U);
  EXPECT_EQ(footer.block(0).decoded_bytes, 4U);
  EXPECT_FALSE(footer.block(0).codec);
  ASSERT_EQ(footer.n_arrays(), 2U);
  const ArrayRecord array = footer.array(0);
  EXPECT_EQ(array.name, "a");
  EXPECT_EQ(array.type, Type::int32);
  EXPECT_EQ(footer.integers(array.shape), std::vector<uint64_t>{3});
  EXPECT_EQ(std::get<int64_t>(array.fill.value()), -5);
  EXPECT_EQ(footer.integers(footer.chunk(array.chunks, 0).coordinate), std::vector<uint64_t>{1});
  EXPECT_TRUE(footer.array(1).deleted);
  EXPECT_FALSE(footer.array(1).fill);
}

TEST(Footer, ResolvesAttributes) {
  const MadeLayer made({}, {{.attributes = {0, 1, 1, 0}}, {.attributes = {0, 2}}});
  const Footer footer(made.archive());
  const std::vector<Attribute> found = footer.attributes(footer.array(0));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].key, "k");
  EXPECT_EQ(std::get<bool>(found[0].value), true);
  EXPECT_EQ(found[1].key, "x");
  EXPECT_EQ(std::get<int32_t>(found[1].value), 7);
  EXPECT_EQ(test::corrupt([&] { footer.attributes(footer.array(1)); }), "attribute value: expected less than 2, got 2");
}

// Deeper than a stack would take.
TEST(Footer, TypesNestAsDeepAsTheyLike) {
  const MadeLayer made({}, {{.lists_around = 300'000}});
  EXPECT_EQ(Footer(made.archive()).array(0).type, Type::list);
}

TEST(Footer, RefusesWhatIsShared) {
  const MadeLayer made({}, {{.shape = {3}, .chunk_shape = {3}}});
  ByteString archive;
  archive.append(made.archive());
  const size_t array = archive.size() - 96 - 2 * 24 - 2 * 16 - 168;
  const int64_t shape = load_le<int64_t>(archive.bytes().data() + array + 40);
  archive.patch(array + 72, shape - 32);  // the chunk shape at the place of the shape
  EXPECT_NE(test::corrupt([&] { Footer(archive.bytes()); }).find("chunk shape: expected 4 bytes aligned to 4"),
            std::string::npos);
}

TEST(Footer, RefusesCountsThatDoNotFit) {
  const MadeLayer made({}, {{.shape = {3}}});
  ByteString archive;
  archive.append(made.archive());
  archive.patch(archive.size() - 96 + 32, ~uint64_t{0});
  EXPECT_NE(test::corrupt([&] { Footer(archive.bytes()); }).find("arrays: expected a count of at most"),
            std::string::npos);
}

}  // namespace
}  // namespace atompack::array_file
