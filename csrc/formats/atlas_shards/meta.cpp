#include "formats/atlas_shards/meta.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/excerpt.h"

namespace atompack::atlas_shards {
namespace {

// Preserves the order of keys, as the original writes them.
using json = nlohmann::ordered_json;

constexpr std::string_view kRootKeys[] = {"version", "shard_sizes", "compression_strategy"};
constexpr std::string_view kShardKeys[] = {"version",
                                           "block_size",
                                           "stored_examples",  //
                                           "compression_strategy",
                                           "compression_level",
                                           "compression_dict_size"};
constexpr unsigned kVersion = 1;
constexpr int kIndent = 4;
constexpr int kMaxDepth = 2;  // an object of lists of numbers

[[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view got) {
  throw UnsupportedFormatError(cat(key, ": expected ", expected, ", got ", got));
}

std::string describe_value(const json& value) {
  return value.is_structured() ? std::string(value.type_name())
                               : excerpt(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

json parse(Bytes text) {
  const auto limit_depth = [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) throw CorruptFileError("JSON: expected an object of numbers, got nested values");
    return true;
  };
  const std::string_view characters = as_text(text);
  try {
    json value = json::parse(characters.begin(), characters.end(), limit_depth);
    if (!value.is_object()) throw_corrupt("JSON: expected an object, got ", describe_value(value));
    return value;
  } catch (const json::exception&) {
    // The library's message quotes the file, whose bytes may be anything.
    throw CorruptFileError("JSON: expected an object, got other bytes");
  }
}

uint64_t size_at(const json& meta, std::string_view key, uint64_t min) {
  const json& value = meta[key.data()];
  const bool is_size = value.is_number_unsigned() && value.get<uint64_t>() >= min &&
                       value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (!is_size) refuse(key, cat("an integer from ", min), describe_value(value));
  return value.get<uint64_t>();
}

// The version is checked first: the keys of other versions are unknown.
json parse_keys(Bytes text, std::span<const std::string_view> keys) {
  json meta = parse(text);
  if (meta.contains("version") && meta["version"] != json(kVersion))
    refuse("version", "1", describe_value(meta["version"]));
  for (const std::string_view key : keys) {
    if (!meta.contains(key.data())) refuse(key, "a value", "none");
  }
  for (const auto& item : meta.items()) {
    if (std::ranges::find(keys, item.key()) == keys.end()) refuse("keys", "no others", excerpt(item.key()));
  }
  size_at(meta, "version", 1);
  return meta;
}

Strategy strategy_at(const json& meta) {
  constexpr std::string_view kKey = "compression_strategy";
  const uint64_t number = size_at(meta, kKey, 0);
  if (number > 3) refuse(kKey, "0 to 3", cat(number));
  return static_cast<Strategy>(number);
}

}  // namespace

RootMeta parse_root_meta(Bytes text) {
  const json meta = parse_keys(text, kRootKeys);
  RootMeta root{{}, strategy_at(meta)};
  const json& sizes = meta["shard_sizes"];
  if (!sizes.is_array()) refuse("shard_sizes", "a list of sizes", describe_value(sizes));
  for (const json& size : sizes) {
    if (!size.is_number_unsigned()) refuse("shard_sizes", "sizes", describe_value(size));
    root.shard_sizes.push_back(size.get<uint64_t>());
  }
  return root;
}

ShardMeta parse_shard_meta(Bytes text) {
  const json meta = parse_keys(text, kShardKeys);
  ShardMeta shard;
  shard.block_size = size_at(meta, "block_size", 1);
  shard.stored_examples = size_at(meta, "stored_examples", 0);
  shard.strategy = strategy_at(meta);
  const json &level = meta["compression_level"], &fraction = meta["compression_dict_size"];
  if (!level.is_number_integer()) refuse("compression_level", "an integer", describe_value(level));
  if (!fraction.is_number()) refuse("compression_dict_size", "a number", describe_value(fraction));
  shard.level = level.get<int64_t>();
  shard.dictionary_fraction = fraction.get<double>();
  return shard;
}

std::string text_of(const RootMeta& meta) {
  json text;
  text["version"] = kVersion;
  text["shard_sizes"] = meta.shard_sizes;
  text["compression_strategy"] = static_cast<int>(meta.strategy);
  return text.dump(kIndent);
}

std::string text_of(const ShardMeta& meta) {
  json text;
  text["version"] = kVersion;
  text["block_size"] = meta.block_size;
  text["stored_examples"] = meta.stored_examples;
  text["compression_strategy"] = static_cast<int>(meta.strategy);
  text["compression_level"] = meta.level;
  text["compression_dict_size"] = meta.dictionary_fraction;
  return text.dump(kIndent);
}

}  // namespace atompack::atlas_shards
