#include "formats/array_file/write/writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "fork.h"
#include "formats/array_file/array_model.h"
#include "formats/array_file/layer/layer.h"
#include "formats/array_file/layer/layers.h"
#include "formats/array_file/read/statistics.h"
#include "io/locked_file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::array_file {
namespace {

using codec::Codec;
using test::expect_file;
using test::Model;
using test::Models;
using test::numbers;
using test::random_box;
using test::random_values;
using test::TemporaryFolder;
using test::Values;

class ArrayWriter : public testing::Test {
 protected:
  std::string path() const { return folder_ / "data.af"; }
  WriterOptions options(Codec codec, uint64_t block_bytes = 256) const {
    return {.codec = codec, .level = 3, .block_bytes = block_bytes, .n_threads = 2, .base_hint = "a/data.af"};
  }
  TemporaryFolder folder_;
};

const ArrayDefinition kSix{.name = "six", .type = Type::int32, .shape = {6}, .chunk_shape = {4}, .fill = int64_t{-1}};

TEST_F(ArrayWriter, MakesAnEmptyBaseAtOnce) {
  const Writer writer(path());
  EXPECT_EQ(std::filesystem::file_size(path()), 108U);
  EXPECT_TRUE(Reader(path()).names().empty());
  EXPECT_EQ(test::message_of<LockedError>([&] { Writer second(path()); }),
            path() + ": another writer has this file open");
}

TEST_F(ArrayWriter, WantsABaseBelowSidecars) {
  std::ofstream(folder_ / "data.3.af") << "x";
  EXPECT_EQ(test::corrupt([&] { Writer writer(path()); }),
            path() + ": base file: expected one for " + (folder_ / "data.3.af") + ", got none");
  EXPECT_EQ(test::message_of<FieldError>([&] { Writer writer(folder_ / "data"); }),
            "array file: expected a name that ends in .af, got " + (folder_ / "data"));
}

int32_t attribute_of(const Reader& reader, std::string_view name, size_t index) {
  return std::get<int32_t>(reader.array(name).attributes.at(index).value);
}

// Another library copies the numbers of an array's attributes into newer layers, which have other values.
TEST_F(ArrayWriter, NumbersTheAttributesOfEachLayer) {
  ArrayDefinition other = kSix;
  other.name = "other";
  {
    Writer writer(path());
    writer.define(kSix);
    writer.define(other);
    for (int32_t i = 0; i < 3; ++i) writer.set_attribute("six", cat("key ", i), i);
    writer.flush();
    writer.set_attribute("other", "key 0", int32_t{7});
    writer.set_attribute("six", "key 1", int32_t{8});
    EXPECT_EQ(writer.attributes("six").size(), 3U);
    writer.flush();
    EXPECT_EQ(test::message_of<FieldError>([&] { writer.set_attribute("six", "key", Timestamp{}); }),
              path() + ": attribute 'key': expected a bool, a number or a string, got another type (field 'six')");
  }
  for (int i = 0; i < 2; ++i) {
    const Reader reader(path());
    EXPECT_EQ(attribute_of(reader, "six", 0), 0);
    EXPECT_EQ(attribute_of(reader, "six", 1), 8);
    EXPECT_EQ(attribute_of(reader, "six", 2), 2);
    EXPECT_EQ(attribute_of(reader, "other", 0), 7);
    Writer(path()).compact();
  }
}

TEST_F(ArrayWriter, NumbersMoreAttributesThan16BitsCount) {
  constexpr int32_t kMany = 65'537;
  {
    Writer writer(path());
    ArrayDefinition array = kSix;
    for (int32_t i = 0; i < kMany; ++i) {
      array.name = cat(i);
      writer.define(array);
      writer.set_attribute(array.name, "key", i);
    }
    writer.flush();
  }
  const Reader reader(path());
  for (const int32_t i : {0, 1, kMany - 1}) EXPECT_EQ(attribute_of(reader, cat(i), 0), i);
}

TEST_F(ArrayWriter, NothingIsSeenBeforeAFlush) {
  Writer writer(path());
  EXPECT_FALSE(writer.stage());
  writer.define(kSix);
  test::write(writer, "six", {{1}, {2}}, numbers<int32_t>({7, 8}));
  EXPECT_EQ(test::read_pending(writer, "six"), numbers<int32_t>({-1, 7, 8, -1, -1, -1}));
  EXPECT_TRUE(Reader(path()).names().empty());
  writer.flush();
  EXPECT_FALSE(writer.has_changes());
  EXPECT_EQ(test::read_file(path(), "six"), numbers<int32_t>({-1, 7, 8, -1, -1, -1}));
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"data.af", "data.1.af", "data.stats"}));
}

TEST_F(ArrayWriter, DeletedArraysComeBackEmpty) {
  Writer writer(path());
  writer.define(kSix);
  test::write(writer, "six", {{0}, {6}}, numbers<int32_t>({0, 1, 2, 3, 4, 5}));
  writer.flush();
  writer.remove("six");
  EXPECT_FALSE(writer.contains("six"));
  writer.flush();
  expect_file(path(), {});
  writer.define(kSix);
  EXPECT_TRUE(writer.contains("six"));
  test::write(writer, "six", {{0}, {1}}, numbers<int32_t>({9}));
  writer.flush();
  EXPECT_EQ(test::read_file(path(), "six"), numbers<int32_t>({9, -1, -1, -1, -1, -1}));
  const Reader reader(path());
  EXPECT_EQ(reader.array("six").chunks.size(), 2U);
  for (const StoredChunk& chunk : reader.array("six").chunks) EXPECT_EQ(chunk.layer, 3U);
}

TEST_F(ArrayWriter, RefusedCallsChangeNothing) {
  Writer writer(path());
  const auto refused = [&](const auto& action) { return test::message_of<FieldError>(action); };
  const auto define = [&](ArrayDefinition array) {
    array.name = "a";
    return refused([&] { writer.define(array); });
  };
  const std::string at = path() + ": ", of_a = " (field 'a')", of_six = " (field 'six')";
  EXPECT_EQ(define({.type = Type::boolean}),
            at + "type: expected numbers, timestamps, strings or binary, got bool" + of_a);
  EXPECT_EQ(define({.type = Type::list}),
            at + "type: expected numbers, timestamps, strings or binary, got list" + of_a);
  EXPECT_EQ(define({.shape = {4}, .chunk_shape = {0}}),
            at + "chunk shape of axis 0: expected 1 to 4294967295, got 0" + of_a);
  EXPECT_EQ(define({.shape = {4}, .chunk_shape = {1, 1}}), at + "chunk shape: expected 1 axes, got 2" + of_a);
  EXPECT_EQ(define({.shape = {uint64_t{1} << 32}}), at + "axis 0: expected at most 4294967295, got 4294967296" + of_a);
  EXPECT_EQ(define({.shape = std::vector<uint64_t>(65, 1)}), at + "axes: expected at most 64, got 65" + of_a);
  EXPECT_EQ(define({.type = Type::uint8, .fill = uint64_t{256}}),
            at + "fill value: expected 0 to 255, got another" + of_a);
  EXPECT_EQ(define({.type = Type::int8, .fill = 1.5}), at + "fill value: expected int8, got another type" + of_a);
  EXPECT_FALSE(writer.has_changes());
  writer.define(kSix);
  EXPECT_EQ(refused([&] { writer.define(kSix); }), at + "array: expected a new name, got one that exists" + of_six);
  writer.flush();
  const auto write = [&](const Box& box, const Values& values) {
    return refused([&] { test::write(writer, "six", box, values); });
  };
  EXPECT_EQ(write({{5}, {2}}, numbers<int32_t>({1, 2})),
            at + "slice of axis 0: expected at most 6 elements, got start 5 and count 2" + of_six);
  EXPECT_EQ(write({{5}, {1}}, numbers<int32_t>({1, 2})), at + "bytes of the values: expected 4, got 8" + of_six);
  EXPECT_EQ(write({{5}, {1}}, {{}, {"x"}}), at + "values: expected int32, got strings" + of_six);
  EXPECT_FALSE(writer.has_changes());
  writer.define({.name = "s", .type = Type::string, .shape = {2}});
  EXPECT_EQ(refused([&] { test::write(writer, "s", {{0}, {2}}, {{}, {"x", "\xFF"}}); }),
            at + "string 1: expected UTF-8, got other bytes (field 's')");
}

TEST_F(ArrayWriter, ChunksOfFourGigabytesAreRefused) {
  Writer writer(path());
  writer.define({.name = "a", .type = Type::float64, .shape = {1 << 16, 1 << 16}});
  const Values one = numbers<double>({1});
  EXPECT_EQ(test::message_of<FieldError>([&] { test::write(writer, "a", {{0, 0}, {1, 1}}, one); }),
            path() + ": chunk: expected at most 4294967295 bytes, got 34359738368 (field 'a')");
}

TEST_F(ArrayWriter, IntegersAreFillValuesOfEveryTypeThatHoldsThem) {
  Writer writer(path());
  writer.define({.name = "time", .type = Type::timestamp, .shape = {1}, .fill = int64_t{-7}});
  writer.define({.name = "count", .type = Type::uint16, .shape = {1}, .fill = int64_t{7}});
  EXPECT_EQ(writer.definition("time").fill, array_file::OwnedFill(Timestamp{-7}));
  EXPECT_EQ(writer.definition("count").fill, array_file::OwnedFill(uint64_t{7}));
  EXPECT_THROW(writer.define({.name = "less", .type = Type::uint16, .shape = {1}, .fill = int64_t{-1}}), FieldError);
}

TEST_F(ArrayWriter, AFlushCanBeStaged) {
  Writer writer(path(), options(Codec::lz4));
  writer.define(kSix);
  EXPECT_TRUE(writer.stage());
  EXPECT_EQ(writer.staged_number(), 1U);
  const std::string before = writer.staged_digest();
  test::write(writer, "six", {{0}, {6}}, numbers<int32_t>({0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(writer.stage());
  EXPECT_NE(writer.staged_digest(), before);
  const std::string digest = writer.staged_digest();
  expect_file(path(), {});
  writer.publish();
  EXPECT_EQ(layer_digest(io::LockedFile::open(sidecar_path(path(), 1))), digest);
  EXPECT_EQ(test::read_file(path(), "six"), numbers<int32_t>({0, 1, 2, 3, 4, 5}));
  writer.write_statistics();
  EXPECT_EQ(read_statistics(path()).at("six").n_null, 0U);
}

TEST_F(ArrayWriter, WhatWasStagedGoesWithItsWriter) {
  {
    Writer writer(path());
    writer.define(kSix);
    writer.stage();
  }
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"data.af"}));
}

TEST_F(ArrayWriter, NumbersGoOnBehindTheHighest) {
  {
    Writer writer(path());
    writer.define(kSix);
    writer.flush();
  }
  std::filesystem::rename(folder_ / "data.1.af", folder_ / "data.041.af");
  Writer writer(path());
  writer.remove("six");
  writer.flush();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "data.42.af"));
  expect_file(path(), {});
}

TEST_F(ArrayWriter, CompactionLeavesOneLayer) {
  Writer writer(path());
  for (const char* const name : {"b", "a", "gone"}) {
    ArrayDefinition array = kSix;
    array.name = name;
    writer.define(array);
    test::write(writer, name, {{0}, {6}}, numbers<int32_t>({0, 1, 2, 3, 4, 5}));
    writer.flush();
  }
  writer.remove("gone");
  test::write(writer, "b", {{5}, {1}}, numbers<int32_t>({50}));
  writer.compact();
  EXPECT_EQ(folder_.names(), (std::set<std::string>{"data.af", "data.stats"}));
  EXPECT_EQ(Reader(path()).names(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(test::read_file(path(), "b"), numbers<int32_t>({0, 1, 2, 3, 4, 50}));
  EXPECT_EQ(read_statistics(path()).size(), 2U);
  EXPECT_EQ(test::message_of<LockedError>([&] { Writer second(path()); }),
            path() + ": another writer has this file open");
  test::write(writer, "a", {{0}, {1}}, numbers<int32_t>({9}));
  writer.flush();
  EXPECT_EQ(test::read_file(path(), "a"), numbers<int32_t>({9, 1, 2, 3, 4, 5}));
}

TEST_F(ArrayWriter, AForkedChildCannotUseIt) {
  Writer writer(path());
  writer.define(kSix);
  EXPECT_TRUE(test::holds_in_child([&] {
    try {
      writer.flush();
    } catch (const LockedError&) {
      return true;
    }
    return false;
  }));
  writer.flush();
  EXPECT_TRUE(Reader(path()).contains("six"));
}

// Arrays of all types and ranks.
std::vector<ArrayDefinition> all_kinds() {
  std::vector<ArrayDefinition> arrays;
  const std::vector<std::vector<uint64_t>> shapes{{}, {7}, {5, 6}, {3, 4, 5}}, chunks{{}, {3}, {2, 4}, {2, 3, 9}};
  for (int type = 1; type < 16; ++type) {
    if (static_cast<Type>(type) == Type::fixed_list || static_cast<Type>(type) == Type::list) continue;
    for (size_t rank = 0; rank < shapes.size(); ++rank) {
      ArrayDefinition array{.name = cat(name_of(static_cast<Type>(type)), " of rank ", rank),
                            .type = static_cast<Type>(type),
                            .shape = shapes[rank]};
      if (type % 2 == 0) array.chunk_shape = chunks[rank];
      if (array.type == Type::float32) array.fill = 1.5;
      if (array.type == Type::int64) array.fill = int64_t{-5};
      if (array.type == Type::uint8) array.fill = uint64_t{255};
      if (array.type == Type::timestamp) array.fill = Timestamp{-7};
      if (array.type == Type::string) array.fill = std::string("a fill value that is long");
      arrays.push_back(array);
    }
  }
  return arrays;
}

class ArrayWriterCodecs : public ArrayWriter, public testing::WithParamInterface<Codec> {};

TEST_P(ArrayWriterCodecs, EveryKindOfArrayComesBack) {
  std::minstd_rand random(1);
  Models models;
  {
    Writer writer(path(), options(GetParam()));
    for (const ArrayDefinition& array : all_kinds()) {
      writer.define(array);
      models.emplace(array.name, Model(array));
    }
    for (int round = 0; round < 5; ++round) {
      for (auto& [name, model] : models) {
        const Box box = random_box(model.array().shape, random);
        const Values values = random_values(model.array().type, box.n_elements(), random);
        test::write(writer, name, box, values);
        model.write(box, values);
        EXPECT_EQ(test::read_pending(writer, name), model.values()) << name;
      }
      if (round != 2) writer.flush();
      if (round != 2) expect_file(path(), models);
    }
    writer.compact();
    expect_file(path(), models);
  }
  Writer again(path(), options(Codec::none));
  again.compact();
  expect_file(path(), models);
}

TEST_P(ArrayWriterCodecs, LargeChunksAndManyBlocksComeBack) {
  std::minstd_rand random(2);
  const ArrayDefinition array{.name = "a", .type = Type::float32, .shape = {1000, 1100}, .chunk_shape = {300, 1100}};
  const ArrayDefinition small{.name = "b", .type = Type::int16, .shape = {40000}, .chunk_shape = {1000}};
  Models models;
  Writer writer(path(), options(GetParam(), 50000));
  for (const ArrayDefinition& each : {array, small}) {
    writer.define(each);
    Model model(each);
    const Values values = random_values(each.type, test::whole_of(each).n_elements(), random);
    test::write(writer, each.name, test::whole_of(each), values);
    model.write(test::whole_of(each), values);
    models.emplace(each.name, model);
  }
  const Box box{{10, 20}, {900, 30}};
  const Values values = random_values(Type::float32, box.n_elements(), random);
  test::write(writer, "a", box, values);
  models.at("a").write(box, values);
  EXPECT_EQ(test::read_pending(writer, "a"), models.at("a").values());
  writer.flush();
  expect_file(path(), models);
}

INSTANTIATE_TEST_SUITE_P(All, ArrayWriterCodecs, testing::Values(Codec::none, Codec::lz4, Codec::zstd),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

}  // namespace
}  // namespace atompack::array_file
