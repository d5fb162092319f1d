#include "formats/atlas_store/metadata/timestamp.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace atompack::atlas_store {
namespace {

int64_t nanoseconds(std::string_view text) { return parse_timestamp(text).value().nanoseconds; }

// The values are those that the original gives.
TEST(AtlasTimestamp, TextsThatAreMoments) {
  EXPECT_EQ(nanoseconds("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(nanoseconds("2023-11-15T07:33:20Z"), 1700033600000000000);
  EXPECT_EQ(nanoseconds("2023-11-15t07:33:60z"), 1700033640000000000);
  EXPECT_EQ(nanoseconds("2023-11-15 07:33:20.1234567899Z"), 1700033600123456789);
  EXPECT_EQ(nanoseconds("2023-11-15T07:33:20-00:00"), 1700033600000000000);
  EXPECT_EQ(nanoseconds("2023-11-15T07:33:20+23:59"), 1699947260000000000);
  EXPECT_EQ(nanoseconds("2023-11-15T07:33:20\u221202:00"), 1700040800000000000);
  EXPECT_EQ(nanoseconds("2016-12-31T23:59:60.5Z"), 1483228800500000000);
  EXPECT_EQ(nanoseconds("1677-09-21T00:12:43.145224192Z"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(nanoseconds("2262-04-11T23:47:16.85477580799Z"), std::numeric_limits<int64_t>::max());
}

TEST(AtlasTimestamp, TextsThatAreNone) {
  for (const char* const text : {"",
                                 "2023",
                                 "2023-11-15",
                                 "2023-11-15T07:33:20",
                                 "2023-11-15T07:33Z",
                                 "2023-11-15T07:33:20.Z",
                                 "2023-11-15T07:33:61Z",
                                 "2023-11-15T07:60:20Z",
                                 "2023-11-15T24:00:00Z",
                                 "2023-02-29T00:00:00Z",
                                 "2023-00-01T00:00:00Z",
                                 "2023-13-01T00:00:00Z",
                                 "2023-11-00T00:00:00Z",
                                 "2023-11-15T07:33:20+24:00",
                                 "2023-11-15T07:33:20+02:60",
                                 "2023-11-15T07:33:20+0200",
                                 "2023-11-15T07:33:20 +02:00",
                                 "2023-11-15T07:33:20+02:00:00",
                                 "2023-11-15T07:33:20UTC",
                                 " 2023-11-15T07:33:20Z",
                                 "2023-11-15T07:33:20Z ",
                                 "2023-11-15  07:33:20Z",
                                 "2023-11-15_07:33:20Z",
                                 "2023-11-15T07:33:20,5Z",
                                 "+2023-11-15T07:33:20Z",
                                 "12023-11-15T07:33:20Z",
                                 "0000-01-01T00:00:00Z",
                                 "1677-09-21T00:12:43.145224191Z",
                                 "2262-04-11T23:47:16.854775808Z",
                                 "2262-04-11T23:47:60Z"}) {
    EXPECT_FALSE(parse_timestamp(text)) << text;
  }
}

TEST(AtlasTimestamp, WritesTheFewestDigitsOfThreeEach) {
  EXPECT_EQ(format_timestamp({0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_timestamp({5}), "1970-01-01T00:00:00.000000005Z");
  EXPECT_EQ(format_timestamp({-1}), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(format_timestamp({1700000000123000000}), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(format_timestamp({1700000000123400000}), "2023-11-14T22:13:20.123400Z");
  EXPECT_EQ(format_timestamp({std::numeric_limits<int64_t>::min()}), "1677-09-21T00:12:43.145224192Z");
  EXPECT_EQ(format_timestamp({std::numeric_limits<int64_t>::max()}), "2262-04-11T23:47:16.854775807Z");
}

TEST(AtlasTimestamp, ComesBack) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const auto moment = static_cast<int64_t>(random()) / (i % 3 == 0 ? 1 : 1000) * (i % 3 == 0 ? 1 : 1000);
    ASSERT_EQ(nanoseconds(format_timestamp({moment})), moment);
  }
}

}  // namespace
}  // namespace atompack::atlas_store
