#include "serial/json/reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "fixtures.h"
#include "message_of.h"

namespace atompack::serial {
namespace {

using nlohmann::json;

// What the reader makes of a document, value by value.
json read_value(JsonReader& in) {
  switch (in.peek()) {
    case Token::null:
      in.null();
      return nullptr;
    case Token::boolean:
      return in.boolean();
    case Token::number:
      return std::visit([](auto number) { return json(number); }, in.number());
    case Token::text:
      return std::string(in.text());
    case Token::list: {
      json list = json::array();
      for (auto scope = in.enter_list(); in.next_item(scope);) list.push_back(read_value(in));
      return list;
    }
    case Token::map: {
      json map = json::object();
      std::string_view key;
      for (auto scope = in.enter_map(); in.next_key(scope, key);) {
        const std::string owned(key);
        map[owned] = read_value(in);
      }
      return map;
    }
  }
  return {};
}

json read(std::string_view text) {
  JsonReader in(as_bytes(text));
  json value = read_value(in);
  in.finish();
  return value;
}

bool is_accepted(std::string_view text) {
  try {
    read(text);
    return true;
  } catch (const CorruptFileError&) {
    return false;
  }
}

TEST(JsonReader, ReadsValues) {
  EXPECT_EQ(read(R"( { "a" : [ 1 , -2, 3.5e1, true , false,null, "x" ], "b": {} } )"),
            json::parse(R"({"a": [1, -2, 35.0, true, false, null, "x"], "b": {}})"));
  EXPECT_EQ(read(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u65e5\ud83d\ude42 \u0000")"),
            json(std::string("\"\\/\b\f\n\r\tAé日🙂 ") + '\0'));
  EXPECT_EQ(read("[[],{}]"), json::parse("[[],{}]"));
}

TEST(JsonReader, KindsOfNumbers) {
  const auto number = [](std::string_view text) { return JsonReader(as_bytes(text)).number(); };
  EXPECT_EQ(std::get<uint64_t>(number("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(std::get<double>(number("18446744073709551616")), 18446744073709551616.0);
  EXPECT_EQ(std::get<int64_t>(number("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(std::get<double>(number("-9223372036854775809")), -9223372036854775808.0);
  EXPECT_TRUE(std::signbit(std::get<double>(number("-0"))));
  EXPECT_EQ(std::get<double>(number("1e-400")), 0.0);
  EXPECT_EQ(std::get<double>(number("1E5")), 1e5);
}

TEST(JsonReader, SaysWhichTextsHadEscapes) {
  JsonReader in(as_bytes(R"(["a", "\u0061", "a"])"));
  auto scope = in.enter_list();
  for (const bool escaped : {false, true, false}) {
    ASSERT_TRUE(in.next_item(scope));
    EXPECT_EQ(in.text(), "a");
    EXPECT_EQ(in.text_was_escaped(), escaped);
  }
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const char* const text : {"",
                                 " ",
                                 "{",
                                 "[",
                                 "[1,]",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "{\"a\" 1}",
                                 "[1 2]",
                                 "01",
                                 "-",
                                 "+1",
                                 "1.",
                                 ".5",
                                 "1e",
                                 "1e+",
                                 "tru",
                                 "nul",
                                 "True",
                                 "\"",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\\u12g4\"",
                                 "\"\\ud800\"",
                                 "\"\\ud800\\u0041\"",
                                 "\"\\udc00\"",
                                 "\"\n\"",
                                 "1 1",
                                 "\xEF\xBB\xBF{}",
                                 "\"\xFF\"",
                                 "1e999",
                                 "NaN",
                                 "{\"a\":1}}",
                                 "// x\n1"}) {
    EXPECT_FALSE(is_accepted(text)) << text;
  }
  EXPECT_EQ(test::corrupt([] { read("{\"a\": 1, 5}"); }), "JSON: expected a string, got something else (offset 9)");
  EXPECT_EQ(test::corrupt([] { read("[1"); }),
            "JSON: expected a comma or a closing bracket, got the end of the document (offset 2)");
}

TEST(JsonReader, DeepDocumentsEndBeforeTheStackDoes) {
  const std::string deep(1 << 20, '[');
  JsonReader in(as_bytes(deep));
  EXPECT_EQ(test::corrupt([&] { skip_value(in); }),
            "metadata: expected a nesting depth of at most 128, got more (offset 128)");
}

TEST(JsonReader, SkipsWhatStandsThereAgain) {
  JsonReader in(as_bytes(R"([{"a": 1}, {"a": 1}, {"a": 2}])"));
  auto scope = in.enter_list();
  ASSERT_TRUE(in.next_item(scope));
  const uint64_t begin = in.position();
  skip_value(in);
  const Bytes first = in.since(begin);
  EXPECT_EQ(as_text(first), R"({"a": 1})");
  ASSERT_TRUE(in.next_item(scope));
  EXPECT_TRUE(in.skip_same(first));
  ASSERT_TRUE(in.next_item(scope));
  EXPECT_FALSE(in.skip_same(first));
}

// Of documents that one or two bytes are changed in.
TEST(JsonReader, AgreesWithAnotherReader) {
  std::minstd_rand random(7);
  const std::string characters = "{}[]\",:\\u0123eE+-.tfn \n\xC3\xA9\x01";
  std::vector<std::string> documents{
      R"({"k": [1, -2.5e-3, "a\u00e9\n", true, null, {"x": ""}], "l": 12345678901234567890})"};
  for (const auto& store : test::atlas_stores()) {
    if (std::filesystem::exists(store / "atlas.json")) {
      documents.push_back(test::contents((store / "atlas.json").string()).substr(0, 2000));
    }
  }
  int n_accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = documents[i % documents.size()];
    for (uint32_t n = random() % 3; n > 0; --n) text[random() % text.size()] = characters[random() % characters.size()];
    const bool accepted = is_accepted(text);
    ASSERT_EQ(accepted, json::accept(text)) << text;
    if (!accepted) continue;
    ++n_accepted;
    ASSERT_EQ(read(text), json::parse(text)) << text;
  }
  EXPECT_GT(n_accepted, 100);
}

TEST(JsonReader, NumbersOfPython) {
  EXPECT_THROW(JsonReader(as_bytes("NaN")).number(), CorruptFileError);
  JsonReader reader(as_bytes("[NaN, Infinity, -Infinity, 1]"), JsonStyle::python);
  std::vector<double> values;
  reader.append_reals(values);
  reader.finish();
  ASSERT_EQ(values.size(), 4U);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[2], -std::numeric_limits<double>::infinity());
  EXPECT_THROW(JsonReader(as_bytes("Inf"), JsonStyle::python).number(), CorruptFileError);
}

TEST(JsonReader, ListsOfReals) {
  const auto read = [](std::string_view text) {
    JsonReader reader(as_bytes(text));
    std::vector<double> values;
    reader.append_reals(values);
    reader.finish();
    return values;
  };
  EXPECT_EQ(read("[]"), std::vector<double>());
  EXPECT_EQ(read(" [ 1 , -2.5e-3,0,18446744073709551615 ] "),
            (std::vector<double>{1, -2.5e-3, 0, 18446744073709551615.0}));
  EXPECT_EQ(
      read("[0.1, -10.30000000000000004, 1.5,2.1 , 0.0, 7, 1e-05, 123456.75, 3.3]                                  "),
      (std::vector<double>{0.1, -10.3, 1.5, 2.1, 0, 7, 1e-5, 123456.75, 3.3}));
  for (const std::string_view text :
       {"[1.]", "[.5]", "[0.1, ]                                 ", "[-]", "[inf]", "[nan]", "[1e400]", "[0x1]", "[1,]",
        "[1 2]", "[", "[1", "[\"1\"]", "[01]", "[+1]"}) {
    EXPECT_THROW(read(text), CorruptFileError) << text;
  }
}

TEST(JsonReader, RunsOfNaturals) {
  const auto read = [](std::string_view text) {
    JsonReader reader(as_bytes(text));
    std::vector<int64_t> values;
    for (auto items = reader.enter_list(); reader.next_item(items);) {
      if (reader.append_naturals(values)) continue;
      const Number number = reader.number();
      const auto* const negative = std::get_if<int64_t>(&number);
      values.push_back(negative == nullptr ? -1000 : *negative);
    }
    reader.finish();
    return values;
  };
  EXPECT_EQ(read("[]"), std::vector<int64_t>());
  EXPECT_EQ(read("[1, 20,3 , 0]"), (std::vector<int64_t>{1, 20, 3, 0}));
  EXPECT_EQ(read("[1, -2, 3, 4.5, 123456789012345678, 1234567890123456789]"),
            (std::vector<int64_t>{1, -2, 3, -1000, 123456789012345678, -1000}));
  for (const std::string_view text : {"[1, ]", "[01]", "[1 2]", "[1, x]", "[1, 2"}) {
    EXPECT_THROW(read(text), CorruptFileError) << text;
  }
}

}  // namespace
}  // namespace atompack::serial
