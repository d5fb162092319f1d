#include "formats/atlas_store/metadata/metadata.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "formats/atlas_store/metadata/timestamp.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

// Against vectors of vectors.
TEST(AtlasLists, GrowInAnyOrder) {
  Lists<uint32_t> lists;
  std::vector<std::vector<uint32_t>> expected;
  uint32_t state = 1;
  const auto random = [&](uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  for (int i = 0; i < 20000; ++i) {
    if (expected.size() < 2 || random(50) == 0) {
      lists.add_list();
      expected.emplace_back();
    }
    const uint32_t at = random(static_cast<uint32_t>(expected.size()));
    std::vector<uint32_t>& list = expected[at];
    const uint32_t choice = random(20);
    if (choice == 0) {
      lists.clear(at);
      list.clear();
    } else if (choice < 5 && !list.empty()) {
      const uint32_t index = random(static_cast<uint32_t>(list.size()));
      lists.erase(at, index);
      list.erase(list.begin() + index);
    } else {
      lists.append(at, random(1000));
      list.push_back(lists[at].back());
    }
  }
  for (uint32_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::vector<uint32_t>(lists[i].begin(), lists[i].end()), expected[i]);
  }
}

TEST(AtlasMetadata, DatasetsComeAndGo) {
  Metadata metadata;
  EXPECT_EQ(metadata.add_dataset("a"), 0U);
  EXPECT_EQ(metadata.add_dataset("b"), 1U);
  metadata.set_attribute(0, "k", int64_t{1});
  metadata.add_array(0, {metadata.add_variable("v"), metadata.add_schema({})});
  metadata.remove_dataset(0);
  EXPECT_FALSE(metadata.exists(0));
  EXPECT_EQ(metadata.find_dataset("a"), std::nullopt);
  EXPECT_EQ(metadata.add_dataset("a"), 2U);
  EXPECT_TRUE(metadata.exists(2));
  EXPECT_FALSE(metadata.exists(0));
  EXPECT_TRUE(metadata.arrays(2).empty());
  EXPECT_EQ(metadata.n_attributes(2), 0U);
}

TEST(AtlasMetadata, AttributesKeepTheirPlace) {
  Metadata metadata;
  metadata.add_dataset("a");
  metadata.set_attribute(0, "x", int64_t{1});
  metadata.set_attribute(0, "y", std::string_view("text"));
  metadata.set_attribute(0, "x", true);
  ASSERT_EQ(metadata.n_attributes(0), 2U);
  EXPECT_EQ(metadata.attribute(0, 0).key, "x");
  EXPECT_TRUE(std::get<bool>(metadata.attribute(0, 0).value));
  EXPECT_EQ(std::get<std::string_view>(metadata.attribute(0, 1).value), "text");
}

TEST(AtlasMetadata, ArraysAreFoundAndRemoved) {
  Metadata metadata;
  metadata.add_dataset("a");
  const Schema wide{
      .dtype = {}, .shape = {3}, .chunk_shape = {3}, .dimension_names = {"x"}, .codec = codec::Codec::lz4};
  EXPECT_EQ(metadata.add_schema(wide), 0U);
  EXPECT_EQ(metadata.add_schema({}), 1U);
  EXPECT_EQ(metadata.add_schema(wide), 0U);
  for (const char* const name : {"u", "v", "w"}) metadata.add_array(0, {metadata.add_variable(name), 0});
  metadata.remove_array(0, *metadata.find_variable("v"));
  EXPECT_EQ(metadata.arrays(0).size(), 2U);
  EXPECT_EQ(metadata.schema_number(0, 1), std::nullopt);
  EXPECT_EQ(metadata.schema_number(0, 2), 0U);
}

TEST(AtlasNames, ThoseThatTheOriginalLosesAreRefused) {
  for (const char* const name : {"temperature", "station name", "a.b", "x:y", "!$&'()+,-.:;=@_"})
    check_array_name(name);
  const auto error = [](std::string_view name) {
    return test::message_of<FieldError>([&] { check_array_name(name); });
  };
  for (const char* const name : {"\xC3\xA9", "a#b", "a%20", "a\\b", "a~", "tab\t", "a\x7f", "`"}) {
    EXPECT_NE(error(name).find("loses the values"), std::string::npos) << name;
  }
  EXPECT_EQ(error("_x"), "array name: expected a name that does not begin with '_', got '_x'");
  EXPECT_EQ(error(".x"), "array name: expected a name that does not begin with '.', got '.x'");
  EXPECT_EQ(error("atlas.json"), "array name: expected a name other than those of metadata files, got 'atlas.json'");
  EXPECT_NE(error(std::string(256, 'x')).find("at most 255 bytes"), std::string::npos);
}

TEST(AtlasNames, OfDatasetsAreFree) {
  for (const char* const name : {"a", "Z\xC3\xBCrich", "hash#", ".hidden", "nl\nname"}) check_dataset_name(name);
  for (const char* const name : {"", ".", "..", "a/b", "_a", "\xFF"}) {
    EXPECT_THROW(check_dataset_name(name), FieldError) << name;
  }
}

TEST(AtlasNames, FoldersOfOtherNames) {
  EXPECT_EQ(folder_of_array("station name"), "station name");
  EXPECT_EQ(folder_of_array("\xC3\xA9"), "%C3%A9");
  EXPECT_EQ(lost_folder_of_array("\xC3\xA9"), "%25C3%25A9");
  EXPECT_EQ(folder_of_array("a%20b"), "a%2520b");
  for (const char* const name : {"", ".", "..", "../x", "a/b"}) EXPECT_THROW(folder_of_array(name), CorruptFileError);
}

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
