#include "formats/array_file/layer/strings.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "byte_string.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using test::ByteString;

TEST(Strings, AreCutAtTheirOffsets) {
  const ByteString chunk = ByteString().put_all<uint32_t>({0, 2, 2, 3}).append(as_bytes("abc"));
  const Strings strings(chunk.bytes(), 3);
  EXPECT_EQ(as_text(strings.at(0)), "ab");
  EXPECT_EQ(as_text(strings.at(1)), "");
  EXPECT_EQ(as_text(strings.at(2)), "c");
}

TEST(Strings, RefusesOffsetsThatDoNotFit) {
  const auto error = [](std::initializer_list<uint32_t> offsets, uint64_t count) {
    const ByteString chunk = ByteString().put_all<uint32_t>(offsets).append(as_bytes("abc"));
    return test::corrupt([&] { Strings(chunk.bytes(), count); });
  };
  EXPECT_EQ(error({0, 2, 1}, 2), "string offset 2: expected at least 2, got 1");
  EXPECT_EQ(error({0, 2, 4}, 2), "last string offset: expected 3, got 4");
  EXPECT_EQ(error({1, 2, 3}, 2), "first string offset: expected 0, got 1");
  EXPECT_EQ(error({0}, 2), "string offsets: expected more than 2, got 1");
  EXPECT_EQ(error({0}, ~uint64_t{0}), "string offsets: expected more than 18446744073709551615, got 1");
}

TEST(Strings, ReplacesWhatIsNoUtf8) {
  const auto replaced = [](std::string_view text) { return well_formed(as_bytes(text)); };
  EXPECT_EQ(replaced("a\xC3\xA9"), "a\xC3\xA9");
  EXPECT_EQ(replaced("\xFF\xFE"), "\uFFFD\uFFFD");
  EXPECT_EQ(replaced("\xF0\x9F\x99z"), "\uFFFDz");            // one for a character that was cut
  EXPECT_EQ(replaced("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(replaced("\xE2\x82"), "\uFFFD");
}

}  // namespace
}  // namespace atompack::array_file
