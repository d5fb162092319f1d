// Data sets that torch_atlas_ds wrote, and damaged and hostile ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "codec/checksums.h"
#include "fixtures.h"
#include "formats/atlas_shards/reader.h"
#include "formats/atlas_shards/tag.h"

namespace atompack::atlas_shards {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path fixtures() { return test::fixtures_root() / "atlas_shards"; }

// Without the tags of examples, which are last: their digests tell the same, and lone surrogates are no JSON here.
json read_expectation(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (const size_t at = text.find(",\"examples\":"); at != std::string::npos) text = text.substr(0, at) + '}';
  return json::parse(text);
}

std::vector<json> expectations(bool good) {
  std::vector<json> found;
  for (const auto& entry : fs::directory_iterator(fixtures() / "expected")) {
    json expected = read_expectation(entry.path());
    if (expected["error"].is_null() == good) found.push_back(std::move(expected));
  }
  return found;
}

fs::path data_of(const json& expected) { return fixtures() / "data" / expected["name"].get<std::string>(); }

// The tags of all examples, in order; every one of them is asked for by its number.
std::vector<std::string> tags_in(const Reader& reader) {
  std::vector<std::string> tags;
  for (uint64_t example = 0; example < reader.size(); ++example) {
    const Place place = reader.locate(example);
    const auto block = reader.block(place.shard, place.block);
    tags.push_back(test::tag_of(block->example(place.position)));
  }
  return tags;
}

void expect_shards(const Reader& reader, const json& expected) {
  ASSERT_EQ(reader.shards().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Shard& shard = reader.shards()[i];
    EXPECT_EQ(shard.name, expected[i]["name"].get<std::string>());
    EXPECT_EQ(static_cast<int>(shard.meta.strategy), expected[i]["strategy"].get<int>());
    EXPECT_EQ(shard.meta.stored_examples, expected[i]["stored"].get<uint64_t>());
    EXPECT_EQ(shard.meta.n_blocks() + 1, expected[i]["index"].size());
  }
}

TEST(AtlasShardsFixtures, GoodOnes) {
  int n_examples = 0;
  for (const json& expected : expectations(true)) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const Reader reader(data_of(expected).string());
    expect_shards(reader, expected["shards"]);
    ASSERT_EQ(reader.size(), expected["length"].get<uint64_t>());
    if (expected["name"].get<std::string>() == "torch_v3") {
      EXPECT_THROW(tags_in(reader), UnsafePickleError) << "torch itself cannot read these";
      continue;
    }
    const std::vector<std::string> tags = tags_in(reader);
    for (size_t i = 0; i < tags.size(); ++i) {
      ++n_examples;
      if (codec::sha256_hex(as_bytes(tags[i])) == expected["digests"][i].get<std::string>()) continue;
      ADD_FAILURE() << "example " << i << ": " << tags[i];
    }
  }
  EXPECT_GT(n_examples, 900);
}

// The kind of the error that reading all of it ends with, in the words of the fixtures.
std::string kind_of_error(const fs::path& data) {
  try {
    tags_in(Reader(data.string()));
  } catch (const CorruptFileError&) {
    return "corrupt";
  } catch (const UnsafePickleError&) {
    return "unsafe";
  } catch (const UnsupportedFormatError& error) {
    return std::string_view(error.what()).find("version:") != std::string_view::npos ? "version" : "format";
  } catch (const IoError& error) {
    return error.code() == ENOENT ? "missing" : error.what();
  }
  return "none";
}

TEST(AtlasShardsFixtures, DamagedAndHostileOnes) {
  const std::vector<json> found = expectations(false);
  EXPECT_EQ(found.size(), 32u);
  for (const json& expected : found) {
    const std::string kinds = cat('|', expected["error"].get<std::string>(), '|');
    const std::string kind = kind_of_error(data_of(expected));
    EXPECT_NE(kinds.find(cat('|', kind, '|')), std::string::npos)
        << expected["name"] << ": " << kind << ", not " << kinds;
  }
  EXPECT_FALSE(fs::exists("ADS_MARKER"));
}

// Those that were given less shards than they were written with.
TEST(AtlasShardsFixtures, SizesThatDifferAreTold) {
  const fs::path data = fixtures() / "data";
  EXPECT_EQ(Reader((data / "s1_atoms").string()).shard_sizes_warning(), std::nullopt);
  EXPECT_EQ(Reader((data / "shards_missing").string()).shard_sizes_warning(),
            cat((data / "shards_missing").string(), ": shard_sizes: expected 12 shards, got 10"));
}

}  // namespace
}  // namespace atompack::atlas_shards
