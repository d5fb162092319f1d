// The two formats that metadata is written in; what they write is read again by another library.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "message_of.h"
#include "serial/json/reader.h"
#include "serial/json/writer.h"
#include "serial/msgpack/reader.h"
#include "serial/msgpack/writer.h"

namespace atompack::serial {
namespace {

using nlohmann::json;

std::string json_of(double value) {
  JsonWriter out;
  out.real(value);
  return out.take();
}

// The spellings are those of the original.
TEST(JsonWriter, RealNumbers) {
  const std::pair<double, const char*> kExpected[] = {{1e15, "1000000000000000.0"},
                                                      {1e16, "1e+16"},
                                                      {123456789012345680.0, "1.2345678901234568e+17"},
                                                      {1234567890123456.8, "1234567890123456.8"},
                                                      {1e-5, "0.00001"},
                                                      {1.234e-5, "0.00001234"},
                                                      {1e-6, "1e-6"},
                                                      {1.5e-7, "1.5e-7"},
                                                      {0.1, "0.1"},
                                                      {-0.0, "-0.0"},
                                                      {0.0, "0.0"},
                                                      {100.0, "100.0"},
                                                      {-1e-300, "-1e-300"},
                                                      {1e22, "1e+22"},
                                                      {12e15, "1.2e+16"},
                                                      {5e-324, "5e-324"},
                                                      {9007199254740992.0, "9007199254740992.0"}};
  for (const auto& [value, expected] : kExpected) EXPECT_EQ(json_of(value), expected);
  EXPECT_EQ(test::message_of<FieldError>([] { json_of(std::numeric_limits<double>::quiet_NaN()); }),
            "JSON: expected a finite number, got nan");
}

TEST(JsonWriter, RealNumbersComeBack) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = json_of(value);
    ASSERT_EQ(std::get<double>(JsonReader(as_bytes(text)).number()), value) << text;
  }
}

TEST(JsonWriter, Texts) {
  JsonWriter out;
  out.text("\"\\\b\f\n\r\t\x01\x1f\x7f/é🙂");
  EXPECT_EQ(out.take(), "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/é🙂\"");
  JsonWriter like;
  like.string_like_timestamp("2023-11-15T07:33:20Z");
  EXPECT_EQ(like.take(), "\"\\u0032023-11-15T07:33:20Z\"");
}

TEST(JsonWriter, ListsAndMaps) {
  JsonWriter out;
  out.map(3);
  out.key("a");
  out.list(0);
  out.end_list();
  out.key("b");
  out.list(2);
  out.item();
  out.natural(1);
  out.item();
  out.integer(-2);
  out.end_list();
  out.key("c");
  out.map(0);
  out.end_map();
  out.end_map();
  EXPECT_EQ(out.take(), "{\n  \"a\": [],\n  \"b\": [\n    1,\n    -2\n  ],\n  \"c\": {}\n}");
}

std::vector<std::string> texts_of_all_lengths() {
  std::vector<std::string> texts;
  for (const size_t n : {0, 1, 31, 32, 255, 256, 65535, 65536}) texts.emplace_back(n, 'x');
  return texts;
}

constexpr int64_t kIntegers[] = {0,      1,          127,        128,       255,       256,         65535,
                                 65536,  -1,         -32,        -33,       -128,      -129,        -32768,
                                 -32769, 4294967295, 4294967296, INT64_MAX, INT64_MIN, -2147483648, -2147483649};

TEST(Msgpack, IsWrittenInTheShortestForms) {
  MsgpackWriter out;
  json expected = json::array();
  const auto texts = texts_of_all_lengths();
  out.list(std::size(kIntegers) + texts.size() + 3);
  for (const int64_t integer : kIntegers) {
    out.item();
    out.integer(integer);
    expected.push_back(integer);
  }
  for (const std::string& text : texts) {
    out.item();
    out.text(text);
    expected.push_back(text);
  }
  out.item();
  out.boolean(true);
  out.item();
  out.real(0.1);
  out.item();
  out.map(1);
  out.key("k");
  out.natural(UINT64_MAX);
  out.end_map();
  out.end_list();
  for (const json& more : {json(true), json(0.1), json{{"k", UINT64_MAX}}}) expected.push_back(more);
  const std::string bytes = out.take();
  const std::vector<uint8_t> theirs = json::to_msgpack(expected);
  EXPECT_EQ(bytes, std::string(theirs.begin(), theirs.end()));
}

TEST(Msgpack, ReadsEveryFormOfNumbers) {
  const auto number = [](std::initializer_list<int> bytes) {
    std::string text;
    for (const int byte : bytes) text += static_cast<char>(byte);
    MsgpackReader in(as_bytes(text));
    EXPECT_EQ(in.peek(), Token::number);
    const Number number = in.number();
    in.finish();
    return number;
  };
  EXPECT_EQ(std::get<uint64_t>(number({0x7f})), 127U);
  EXPECT_EQ(std::get<int64_t>(number({0xe0})), -32);
  EXPECT_EQ(std::get<uint64_t>(number({0xcd, 0x12, 0x34})), 0x1234U);
  EXPECT_EQ(std::get<uint64_t>(number({0xd0, 0x05})), 5U);
  EXPECT_EQ(std::get<int64_t>(number({0xd2, 0xff, 0xff, 0xff, 0xfe})), -2);
  EXPECT_EQ(std::get<double>(number({0xca, 0x3f, 0xc0, 0, 0})), 1.5);
  EXPECT_EQ(std::get<uint64_t>(number({0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})), UINT64_MAX);
}

TEST(Msgpack, RefusesWhatIsNoValue) {
  const auto error = [](std::string_view bytes) {
    return test::corrupt([&] {
      MsgpackReader in(as_bytes(bytes));
      skip_value(in);
      in.finish();
    });
  };
  EXPECT_EQ(error(""), "MessagePack: expected a value, got the end of the document (offset 0)");
  EXPECT_EQ(error("\xc1"), "MessagePack: expected a plain value, got code 193 (offset 0)");
  EXPECT_EQ(error("\xc4"), "MessagePack: expected a plain value, got code 196 (offset 0)");
  EXPECT_EQ(error("\xa2x"), "MessagePack: expected 2 bytes, got 1 (offset 1)");
  EXPECT_EQ(error("\xa1\xff"), "MessagePack: expected UTF-8, got other bytes (offset 0)");
  EXPECT_EQ(error("\x81\x01\x02"), "MessagePack: expected a string as key, got a number (offset 1)");
  EXPECT_EQ(error("\xdf\xff\xff\xff\xff"), "MessagePack: expected a value, got the end of the document (offset 5)");
  EXPECT_EQ(error("\x01\x02"), "MessagePack: expected the end of the document, got 1 more bytes (offset 1)");
  EXPECT_EQ(error(std::string(1000, '\x91')),
            "metadata: expected a nesting depth of at most 128, got more (offset 128)");
}

}  // namespace
}  // namespace atompack::serial
