#include "formats/atlas_store/metadata/metadata_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codec/zstd_codec.h"
#include "fixtures.h"

namespace atompack::atlas_store {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json shown(const AttributeValue& value) {
  return std::visit(
      [](const auto& held) -> json {
        using Kind = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Kind, TimestampValue>) {
          return held.at.nanoseconds;  // as the library gives them to Python
        } else {
          return held;
        }
      },
      value);
}

std::string original_name(const DataType& dtype) {
  return dtype.type() == array_file::Type::timestamp ? "timestamp_nanoseconds" : std::string(name_of(dtype.type()));
}

void compare_dataset(const Metadata& metadata, uint32_t dataset, const ordered_json& expected) {
  ASSERT_EQ(metadata.n_attributes(dataset), expected.at("attributes").size());
  size_t i = 0;
  for (const auto& [key, value] : expected.at("attributes").items()) {
    const Attribute attribute = metadata.attribute(dataset, i++);
    EXPECT_EQ(attribute.key, key);
    EXPECT_EQ(shown(attribute.value), json(value)) << key;
  }
  std::vector<std::string> arrays;
  for (const Entry& entry : metadata.arrays(dataset)) {
    arrays.emplace_back(metadata.variable_name(entry.variable));
    const ordered_json& array = expected.at("arrays").at(arrays.back());
    const Schema& schema = metadata.schema(entry.schema);
    EXPECT_EQ(original_name(schema.dtype), array.at("dtype").get<std::string>());
    EXPECT_EQ(json(schema.shape), json(array.at("shape")));
    EXPECT_EQ(json(schema.chunk_shape), json(array.at("chunk_shape")));
    EXPECT_EQ(json(schema.dimension_names), json(array.at("dimension_names")));
  }
  EXPECT_EQ(arrays.size(), expected.at("arrays").size());
}

TEST(AtlasMetadataFile, HoldsWhatTheLibraryReads) {
  for (const auto& store : test::atlas_stores()) {
    SCOPED_TRACE(store.string());
    const Metadata metadata = decode_metadata(read_metadata_file(store.string()).value());
    const auto expected = ordered_json::parse(test::contents(store.string() + ".expected.json"));
    std::vector<std::string> names;
    for (uint32_t i = 0; i < metadata.n_numbers(); ++i) {
      names.emplace_back(metadata.dataset_name(i));
      compare_dataset(metadata, i, expected.at("datasets").at(names.back()));
      EXPECT_EQ(metadata.find_dataset(names.back()), i);
    }
    EXPECT_EQ(json(names), json(expected.at("datasets_order")));
    EXPECT_TRUE(metadata.warnings().empty());
  }
}

std::vector<std::byte> document_of(const MetadataFile& file) {
  const auto compression = static_cast<int>(file.form) % 3;
  if (compression == 1) {
    const codec::DecodedContent content = codec::zstd_decompress_unsized(file.bytes, 1 << 20);
    return {content.bytes().begin(), content.bytes().end()};
  }
  if (compression == 0) return {file.bytes.begin(), file.bytes.end()};
  std::vector<std::byte> document(load_le<uint32_t>(file.bytes.data()));
  codec::decompress(codec::Codec::lz4, Bytes(file.bytes).subspan(4), document);
  return document;
}

TEST(AtlasMetadataFile, IsTheSameByteByByteWhenItIsWrittenAgain) {
  std::vector<int> per_form(kFileNames.size());
  for (const auto& store : test::atlas_stores()) {
    SCOPED_TRACE(store.string());
    const MetadataFile file = read_metadata_file(store.string()).value();
    const std::vector<std::byte> encoded = encode_metadata(decode_metadata(file), file.form);
    const MetadataFile again{file.form, "", {encoded.begin(), encoded.end()}};
    EXPECT_EQ(as_text(document_of(again)), as_text(document_of(file)));
    ++per_form[static_cast<size_t>(file.form)];
  }
  for (const int n : per_form) EXPECT_GT(n, 0);
}

TEST(AtlasMetadataFile, OfDamagedStoresIsAsTheVerdictsSay) {
  const auto reject = test::atlas_fixtures() / "reject";
  const json verdicts = json::parse(test::contents((reject / "verdicts.json").string()));
  int n_refused = 0;
  for (const auto& [name, verdict] : verdicts.items()) {
    SCOPED_TRACE(name);
    std::string error;
    try {
      const Metadata metadata = decode_metadata(read_metadata_file((reject / name).string()).value());
      EXPECT_TRUE(metadata.warnings().empty());
    } catch (const DataError& refusal) {
      error = refusal.what();
      ++n_refused;
    }
    // Other damage than that to the metadata shows later.
    const bool refusable = name.starts_with("json_") && verdict.at("expect") != "read";
    EXPECT_TRUE(error.empty() || refusable) << error;
    EXPECT_FALSE(error.empty() && refusable && verdict.at("expect") == "reject");
  }
  EXPECT_GT(n_refused, 9);
}

}  // namespace
}  // namespace atompack::atlas_store
