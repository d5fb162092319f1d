#include "formats/atlas_store/metadata/document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "message_of.h"

namespace atompack::atlas_store {
namespace {

const std::string kArray =
    R"({"dtype":{"type":"int32"},"shape":[4],"chunk_shape":[2],"dimension_names":["x"],"codec":"Lz4"})";

std::string with_arrays(const std::string& arrays) {
  return R"({"version":1,"datasets":{"d":{"arrays":)" + arrays + "}}}";
}
std::string with_attributes(const std::string& attributes) {
  return R"({"version":1,"datasets":{"d":{"attributes":)" + attributes + "}}}";
}
std::string with_array(std::string from, const std::string& to) {
  std::string array = kArray;
  array.replace(array.find(from), from.size(), to);
  return with_arrays("{\"v\":" + array + "}");
}

// The same document in MessagePack gives the same errors, except for their places in the file.
std::string error(const std::string& text) {
  const std::string message = test::corrupt([&] { decode_json(as_bytes(text)); });
  return message.substr(0, message.find(", offset"));
}

Metadata decode(const std::string& text) { return decode_json(as_bytes(text)); }

TEST(AtlasMetadataDecode, EqualSchemasAreStoredOnce) {
  const Metadata metadata = decode(R"({"version":0,"codec":"Lz4","datasets":{"a":{"arrays":{"v":)" + kArray +
                                   R"(,"w":)" + kArray + R"(}},"b":{"arrays":{"w":)" + kArray + " }}}}");
  EXPECT_EQ(metadata.codec, codec::Codec::lz4);
  EXPECT_EQ(metadata.n_schemas(), 1U);
  EXPECT_EQ(metadata.n_variables(), 2U);
  ASSERT_EQ(metadata.n_numbers(), 2U);
  ASSERT_EQ(metadata.arrays(0).size(), 2U);
  EXPECT_EQ(metadata.variable_name(metadata.arrays(1)[0].variable), "w");
  EXPECT_EQ(metadata.schema(0).shape, std::vector<uint64_t>{4});
  EXPECT_EQ(metadata.schema_number(1, *metadata.find_variable("v")), std::nullopt);
  EXPECT_EQ(metadata.find_dataset("c"), std::nullopt);
}

TEST(AtlasMetadataDecode, DatasetsMayRepeatTheArraysOfTheOneBefore) {
  const std::string two = "{\"v\":" + kArray + ",\"w\":" + kArray + "}", one = "{\"w\":" + kArray + "}";
  const auto with = [&](const std::string& last) {
    return R"({"version":1,"datasets":{"a":{"arrays":)" + two + R"(,"attributes":{"k":1}},"b":{"arrays":)" + two +
           R"(,"attributes":{"k":2}},"c":{"arrays":)" + one + R"(},"d":{"arrays":)" + one + R"(},"e":{"arrays":)" +
           last + "}}}";
  };
  const Metadata metadata = decode(with(two));
  const Metadata same = decode_msgpack(as_bytes(encode_msgpack(metadata)));
  for (const Metadata* const decoded : {&metadata, &same}) {
    std::vector<size_t> n_arrays;
    for (uint32_t dataset = 0; dataset < 5; ++dataset) n_arrays.push_back(decoded->arrays(dataset).size());
    EXPECT_EQ(n_arrays, (std::vector<size_t>{2, 2, 1, 1, 2}));
    EXPECT_EQ(decoded->variable_name(decoded->arrays(1)[1].variable), "w");
    EXPECT_EQ(decoded->variable_name(decoded->arrays(3)[0].variable), "w");
    EXPECT_EQ(std::get<int64_t>(*decoded->find_attribute(1, "k")), 2);
  }
  EXPECT_NE(error(with(one + R"(,"arrays":)" + one)).find("arrays: duplicate key"), std::string::npos);
  EXPECT_NE(error(with(one.substr(0, one.size() - 1))).find("expected"), std::string::npos);
}

TEST(AtlasMetadataDecode, ListsOfTypes) {
  const std::string list =
      R"({"args":{"child":{"type":"fixed_size_list","args":{"size":3,"child":{"type":"int8"}}}},"type":"list"})";
  const Metadata metadata = decode(with_array(R"({"type":"int32"})", list));
  const DataType& dtype = metadata.schema(0).dtype;
  EXPECT_EQ(dtype.type(), array_file::Type::list);
  EXPECT_EQ(dtype.lists, (std::vector<std::optional<uint64_t>>{std::nullopt, 3}));
  EXPECT_EQ(dtype.element, array_file::Type::int8);
  const Metadata again = decode(encode_json(metadata));
  EXPECT_EQ(again.schema(0), metadata.schema(0));
}

TEST(AtlasMetadataDecode, KindsOfAttributes) {
  const Metadata metadata = decode(with_attributes(
      R"({"b":true,"i":-5,"big":9223372036854775808,"f":1.0,"s":"x","t":"1970-01-01T00:00:01Z","e":"1970-01-01T00:00:01\u005a"})"));
  const auto value = [&](std::string_view key) { return metadata.find_attribute(0, key).value(); };
  EXPECT_TRUE(std::get<bool>(value("b")));
  EXPECT_EQ(std::get<int64_t>(value("i")), -5);
  EXPECT_EQ(std::get<double>(value("big")), 9223372036854775808.0);
  EXPECT_EQ(std::get<double>(value("f")), 1.0);
  EXPECT_EQ(std::get<std::string_view>(value("s")), "x");
  EXPECT_EQ(std::get<TimestampValue>(value("t")).at.nanoseconds, 1'000'000'000);
  EXPECT_EQ(std::get<std::string_view>(value("e")), "1970-01-01T00:00:01Z");
  EXPECT_EQ(metadata.find_attribute(0, "absent").has_value(), false);
}

TEST(AtlasMetadataDecode, AttributesArePlainValues) {
  for (const std::string value : {"null", "[1]", "{}"}) {
    EXPECT_NE(test::message_of<CorruptFileError>([&] {
                decode(with_attributes("{\"n\":" + value + "}"));
              }).find("attribute 'n': expected a plain value, got "),
              std::string::npos);
  }
}

TEST(AtlasMetadataDecode, TextsThatReadAsMomentsStayTexts) {
  const Metadata metadata = decode(with_attributes(R"({"e":"1970-01-01T00:00:01\u005a"})"));
  const Metadata again = decode(encode_json(metadata));
  EXPECT_EQ(std::get<std::string_view>(again.find_attribute(0, "e").value()), "1970-01-01T00:00:01Z");
  EXPECT_EQ(test::message_of<FieldError>([&] { encode_msgpack(metadata); }),
            "string: expected one that does not read as a timestamp, got '1970-01-01T00:00:01Z' (field 'd.e')");
}

TEST(AtlasMetadataDecode, VersionsThatAreNotRead) {
  const auto error = [](const std::string& version) {
    return test::message_of<UnsupportedFormatError>([&] { decode(R"({"version":)" + version + R"(,"datasets":{}})"); });
  };
  EXPECT_EQ(error("4"), "version: expected at most 3, got 4");
  EXPECT_EQ(error("99"), "version: expected at most 3, got 99");
}

// Version 3 with two datasets, the first of which is deleted.
std::string numbered(const std::string& datasets, const std::string& rest = R"("schemas":[{}],"deleted":[0])",
                     const std::string& version = "3") {
  return R"({"datasets":)" + datasets + "," + rest + R"(,"version":)" + version + "}";
}

TEST(AtlasMetadataDecode, DatasetsByNumberOfTheirSchema) {
  const Metadata metadata = decode(numbered(R"({"a":0,"b":0})"));
  ASSERT_EQ(metadata.n_numbers(), 1U);
  EXPECT_EQ(metadata.dataset_name(0), "b");
  EXPECT_NE(metadata.dataset_schema(0), nullptr);
  EXPECT_FALSE(metadata.attribute_variable);
  const std::string schemas = R"("schemas":[{"arrays":{},"global_attrs":{"k":{"type":"int64"}},"array_attrs":{}}])";
  EXPECT_TRUE(decode(numbered(R"({"a":0})", schemas, "2")).attribute_variable);
}

TEST(AtlasMetadataDecode, WhatNumberedDatasetsMustHave) {
  EXPECT_EQ(error(numbered(R"({"a":1,"b":0})", R"("schemas":[{}])")),
            "schema of dataset 'a': expected a number below 1, got 1");
  EXPECT_EQ(error(numbered(R"({"a":0})", R"("schemas":[{}],"deleted":[1])")),
            "deleted: expected numbers below 1, got 1");
  EXPECT_EQ(error(numbered(R"({"a":0})", R"("schema":[])")), "metadata: expected schemas, got none");
  EXPECT_EQ(error(numbered(R"({"a":0})", R"("schemas":[{}])", "1")),
            "datasets: expected maps in version 1, got numbers");
  EXPECT_EQ(error(numbered(R"({"a":{}})", R"("schemas":[{}])")), "datasets: expected numbers in version 3, got maps");
  EXPECT_EQ(error(numbered(R"({"a":0,"a":0})", R"("schemas":[{}])")), "datasets: duplicate name 'a'");
}

TEST(AtlasMetadataDecode, SaysWhereItIsWrong) {
  EXPECT_EQ(error("[]"), "metadata: expected a map, got a list (offset 0)");
  EXPECT_EQ(error("{}"), "metadata: expected a version, got none");
  EXPECT_EQ(error(R"({"version":1})"), "metadata: expected datasets, got none");
  EXPECT_EQ(error(R"({"version":1,"version":1})"), "version: duplicate key (offset 23)");
  EXPECT_EQ(error(R"({"version":-1})"), "version: expected an integer from 0, got another number (offset 11)");
  EXPECT_EQ(error(R"({"version":1,"datasets":{"a":{},"a":{}}})"), "datasets: duplicate name 'a' (offset 36)");
  EXPECT_EQ(error(R"({"version":1,"datasets":{"a":[]}})"), "dataset: expected a map, got a list (field 'a'");
  EXPECT_EQ(error(with_attributes(R"({"k":1,"k":1})")), "attributes: duplicate key 'k' (field 'd'");
  EXPECT_EQ(error(with_attributes(R"({"k":[1]})")), "attribute 'k': expected a plain value, got a list (field 'd'");
  EXPECT_EQ(error(with_arrays("{\"v\":" + kArray + ",\"v\":" + kArray + "}")), "arrays: duplicate name 'v' (field 'd'");
  EXPECT_EQ(error(with_array("[4]", "[4.0]")), "shape: expected an integer from 0, got another number (field 'd/v'");
  EXPECT_EQ(error(with_array(R"(,"codec":"Lz4")", "")),
            "array: expected dtype, shape, chunk_shape, dimension_names and codec, got not all of them (field 'd/v'");
  EXPECT_EQ(error(with_array(R"({"type":"int32"})", R"({"type":"int32","args":{}})")),
            "dtype: expected int32 without arguments, got some (field 'd/v'");
  EXPECT_EQ(error(with_array(R"({"type":"int32"})", R"({"type":"list"})")),
            "dtype: expected the type in the list, got none (field 'd/v'");
  EXPECT_EQ(test::message_of<UnsupportedFormatError>([] { decode(with_array("Lz4", "lz4")); }),
            "codec: expected Zstd, Lz4 or Uncompressed, got 'lz4' (field 'd/v')");
  EXPECT_EQ(test::message_of<UnsupportedFormatError>([] { decode(with_array("int32", "uint8")); }),
            "dtype: expected a known type, got 'uint8' (field 'd/v')");
}

TEST(AtlasMetadataDecode, ListsInListsHaveALimit) {
  std::string type = R"({"type":"int8"})";
  for (int i = 0; i < 40; ++i) type = R"({"type":"list","args":{"child":)" + type + "}}";
  EXPECT_EQ(error(with_array(R"({"type":"int32"})", type)),
            "dtype: expected a nesting depth of at most 32 lists, got more (field 'd/v'");
}

TEST(AtlasMetadataDecode, UnknownKeysArePassedOver) {
  const Metadata metadata = decode(R"({"more":[{}],"version":1,"datasets":{"d":{"more":2,"arrays":{"v":)" +
                                   kArray.substr(0, kArray.size() - 1) + R"(,"more":{"dtype":3}}}}}})");
  EXPECT_EQ(metadata.arrays(0).size(), 1U);
}

// A document of any kind is read in MessagePack as it is in JSON.
TEST(AtlasMetadataDecode, MessagePackSaysTheSame) {
  for (const std::string& text :
       {with_arrays("{\"v\":" + kArray + "}"),
        with_attributes(R"({"a":1,"b":"x","c":2.5,"d":false,"e":-3,"t":"1970-01-01T00:00:01.5Z"})"),
        std::string(R"({"version":1,"codec":"Uncompressed","datasets":{},"more":[1]})")}) {
    const std::vector<uint8_t> bytes = nlohmann::ordered_json::to_msgpack(nlohmann::ordered_json::parse(text));
    const Metadata metadata = decode_msgpack(std::as_bytes(std::span(bytes)));
    EXPECT_EQ(encode_json(metadata), encode_json(decode(text)));
  }
}

}  // namespace
}  // namespace atompack::atlas_store
