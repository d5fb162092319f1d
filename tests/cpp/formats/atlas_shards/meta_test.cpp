#include "formats/atlas_shards/meta.h"

#include <gtest/gtest.h>

#include <string>

#include "message_of.h"

namespace atompack::atlas_shards {
namespace {

using test::corrupt;
using test::unsupported;

std::string shard_text(std::string_view sizes, std::string_view strategy = "3", std::string_view version = "1") {
  return cat("{\"version\": ", version, ", ", sizes, ", \"compression_strategy\": ", strategy,
             ", \"compression_level\": -5, \"compression_dict_size\": 0}");
}

std::string root_text(std::string_view sizes) {
  return cat("{\"version\": 1, \"compression_strategy\": 2, \"shard_sizes\": ", sizes, "}");
}

ShardMeta shard(const std::string& text) { return parse_shard_meta(as_bytes(text)); }
RootMeta root(const std::string& text) { return parse_root_meta(as_bytes(text)); }

TEST(AtlasShardsMeta, OfAShard) {
  const ShardMeta meta = shard(shard_text(R"("block_size": 4, "stored_examples": 10)"));
  EXPECT_EQ(meta.strategy, Strategy::own_dictionary);
  EXPECT_EQ(meta.level, -5);
  EXPECT_EQ(meta.n_blocks(), 3u);
  EXPECT_EQ(meta.examples_in(1), 4u);
  EXPECT_EQ(meta.examples_in(2), 2u);
  EXPECT_EQ(shard(shard_text(R"("block_size": 4, "stored_examples": 0)")).n_blocks(), 0u);
  const ShardMeta huge = shard(shard_text(R"("block_size": 2, "stored_examples": 9223372036854775807)"));
  EXPECT_EQ(huge.n_blocks(), uint64_t{1} << 62);
}

TEST(AtlasShardsMeta, OfTheRoot) {
  EXPECT_EQ(root(root_text("[3, 0, 5]")).shard_sizes, (std::vector<uint64_t>{3, 0, 5}));
  EXPECT_EQ(root(root_text("[]")).strategy, Strategy::shared_dictionary);
}

TEST(AtlasShardsMeta, VersionsComeFirst) {
  EXPECT_EQ(unsupported([] { root(R"({"version": 2, "new": 1})"); }), "version: expected 1, got '2'");
  EXPECT_EQ(unsupported([] { root(R"({"version": "1"})"); }), R"(version: expected 1, got '"1"')");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 4, "stored_examples": 1)", "1", "1.0")); }),
            "version: expected an integer from 1, got '1.0'");
}

TEST(AtlasShardsMeta, KeysAreClosed) {
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 4)")); }),
            "stored_examples: expected a value, got none");
  EXPECT_EQ(unsupported([] { root(R"({"version": 1, "shard_sizes": [], "compression_strategy": 1, "x": 1})"); }),
            "keys: expected no others, got 'x'");
  EXPECT_EQ(unsupported([] { root("{}"); }), "version: expected a value, got none");
}

TEST(AtlasShardsMeta, ValuesOutOfRange) {
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 0, "stored_examples": 1)")); }),
            "block_size: expected an integer from 1, got '0'");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 1, "stored_examples": -1)")); }),
            "stored_examples: expected an integer from 0, got '-1'");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 1, "stored_examples": 9223372036854775808)")); }),
            "stored_examples: expected an integer from 0, got '9223372036854775808'");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 1.5, "stored_examples": 1)")); }),
            "block_size: expected an integer from 1, got '1.5'");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": true, "stored_examples": 1)")); }),
            "block_size: expected an integer from 1, got 'true'");
  EXPECT_EQ(unsupported([] { shard(shard_text(R"("block_size": 1, "stored_examples": 1)", "4")); }),
            "compression_strategy: expected 0 to 3, got 4");
  EXPECT_EQ(unsupported([] { root(root_text("7")); }), "shard_sizes: expected a list of sizes, got '7'");
  EXPECT_EQ(unsupported([] { root(root_text("[-1]")); }), "shard_sizes: expected sizes, got '-1'");
}

TEST(AtlasShardsMeta, NoJson) {
  for (const char* text : {"", "{", "{\"version\": 1", "\xFF\xFE", "{\"version\": NaN}", "{} {}", "{'version': 1}"}) {
    EXPECT_EQ(corrupt([&] { root(text); }), "JSON: expected an object, got other bytes") << text;
  }
  EXPECT_EQ(corrupt([] { root("[]"); }), "JSON: expected an object, got array");
  EXPECT_EQ(corrupt([] { root(std::string(1 << 20, '[')); }), "JSON: expected an object of numbers, got nested values");
}

}  // namespace
}  // namespace atompack::atlas_shards
