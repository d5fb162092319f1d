#include "formats/atlas_store/writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "fixtures.h"
#include "fork.h"
#include "formats/array_file/write/writer.h"
#include "formats/atlas_store/flush.h"
#include "formats/atlas_store/scenario.h"
#include "formats/atlas_store/store_state.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::atlas_store {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using test::numbers;
using test::put;
using test::state_of;

class AtlasWriter : public testing::Test {
 protected:
  std::string store() const { return folder_ / "store"; }
  std::string contents(const std::string& name) const { return test::contents(store() + "/" + name); }
  template <typename Action>
  static std::string refused(const Action& action) {
    return test::message_of<FieldError>(action);
  }

  test::TemporaryFolder folder_;
};

TEST_F(AtlasWriter, MakesAnEmptyStoreAtOnce) {
  const Writer writer(store(), Mode::create);
  EXPECT_EQ(contents("atlas.json"), "{\n  \"version\": 1,\n  \"codec\": \"Zstd\",\n  \"datasets\": {}\n}");
  EXPECT_EQ(test::message_of<LockedError>([&] { Writer second(store(), Mode::append); }),
            store() + ": another writer has this folder open");
}

TEST_F(AtlasWriter, CreatesNothingOverAStore) {
  {
    const Writer writer(store(), Mode::create, {.codec = {}, .form = Form::msgpack_zst});
  }
  EXPECT_THROW(Writer(store(), Mode::create), IoError);
  fs::remove(store() + "/atlas.msgpack.zst");
  {
    const Writer writer(store(), Mode::create);
  }  // an empty folder is none
  fs::remove(store() + "/atlas.json");
  fs::create_directory(store() + "/t");
  std::ofstream(store() + "/t/data.af") << "x";
  EXPECT_THROW(Writer(store(), Mode::create), IoError);
  EXPECT_THROW(Writer(folder_ / "no/such/folder", Mode::append), IoError);
}

TEST_F(AtlasWriter, AFlushWithoutNewsWritesNothing) {
  Writer writer(store(), Mode::create);
  const Snapshot before = read_snapshot(store());
  writer.flush();
  EXPECT_TRUE(is_current(store(), before));
  writer.create_dataset("d");
  writer.flush();
  EXPECT_FALSE(is_current(store(), before));
}

TEST_F(AtlasWriter, AttributesThatWouldNotComeBackAreRefused) {
  Writer writer(store(), Mode::create);
  writer.create_dataset("d");
  const auto set = [&](const AttributeValue& value) { return refused([&] { writer.set_attribute("d", "k", value); }); };
  const std::string attribute = store() + ": attribute 'k': ";
  EXPECT_EQ(set(std::numeric_limits<double>::infinity()),
            attribute + "expected a finite number in JSON, got inf (field 'd')");
  EXPECT_EQ(set(std::string_view("1970-01-01T00:00:00Z")),
            attribute + "expected a string that does not read as a timestamp, got '1970-01-01T00:00:00Z' (field 'd')");
  EXPECT_EQ(set(std::string_view("\xFF")), attribute + "expected UTF-8, got other bytes (field 'd')");
  writer.set_attribute("d", "f", 3.0);
  writer.flush();
  EXPECT_NE(contents("atlas.json").find("\"f\": 3.0\n"), std::string::npos);
}

TEST_F(AtlasWriter, NumbersThatAreNotFiniteStayInMessagePack) {
  Writer writer(store(), Mode::create, {.codec = {}, .form = Form::msgpack});
  writer.create_dataset("d");
  writer.set_attribute("d", "k", std::numeric_limits<double>::infinity());
  writer.flush();
  const Snapshot snapshot = read_snapshot(store());
  EXPECT_EQ(std::get<double>(snapshot.metadata.attribute(0, 0).value), std::numeric_limits<double>::infinity());
}

// Its folder is no more than what was deleted: the next array there is made of its own chunks alone.
TEST_F(AtlasWriter, CompactionReachesVariablesThatNoDatasetHas) {
  {
    Writer writer(store(), Mode::create);
    writer.create_dataset("d");
    writer.define_array("d", numbers("v", 2));
    put(writer, "d", "v", 0, {1, 2});
    writer.flush();
    writer.delete_dataset("d");
    writer.flush();
  }
  Writer(store(), Mode::append).compact();
  EXPECT_EQ(array_file::Reader(store() + "/v/data.af").layers().n_layers(), 1U);
  EXPECT_EQ(array_file::Reader(store() + "/v/data.af").layers().layer(0).footer().n_arrays(), 0U);
}

TEST_F(AtlasWriter, LeavesOneMetadataFile) {
  {
    const Writer writer(store(), Mode::create, {.codec = {}, .form = Form::msgpack});
  }
  std::ofstream(store() + "/atlas.json") << R"({"version":1,"datasets":{"old":{}}})";
  Writer writer(store(), Mode::append);
  writer.create_dataset("d");
  writer.flush();
  EXPECT_FALSE(fs::exists(store() + "/atlas.msgpack"));
  EXPECT_EQ(state_of(store()).dump(), R"({"old":{},"d":{}})");
}

TEST_F(AtlasWriter, ANewCodecIsThatOfNewBlocks) {
  {
    const Writer writer(store(), Mode::create);
  }
  {
    Writer writer(store(), Mode::append, {.codec = codec::Codec::lz4});
    writer.flush();
  }
  EXPECT_NE(contents("atlas.json").find("\"codec\": \"Lz4\""), std::string::npos);
}

TEST_F(AtlasWriter, WhatTheMetadataDoesNotKnowMayBeDefinedAnew) {
  {
    fs::create_directories(store() + "/t");
    array_file::Writer orphan(store() + "/t/data.af");
    array_file::ArrayDefinition definition = numbers("d", 3);
    orphan.define(definition);
    const int32_t values[] = {1, 2, 3};
    orphan.write("d", {{0}, {3}}, std::as_bytes(std::span(values)));
    orphan.flush();
  }
  Writer writer(store(), Mode::append);
  writer.create_dataset("d");
  writer.define_array("d", numbers("t", 3));
  put(writer, "d", "t", 0, {9});
  writer.flush();
  EXPECT_EQ(state_of(store())["d"]["arrays"]["t"].dump(), "[9,-1,-1]");
}

TEST_F(AtlasWriter, CompactionLeavesOneLayerAndTheSameValues) {
  Writer writer(store(), Mode::create);
  for (const test::Round& round : test::rounds()) {
    for (const auto& action : round) action(writer);
  }
  const ordered_json before = state_of(store());
  writer.compact();
  EXPECT_EQ(state_of(store()), before);
  for (const VariableFiles& variable : read_snapshot(store()).variables) {
    EXPECT_EQ(variable.layers.size(), 1U);
    EXPECT_TRUE(fs::exists(variable.statistics_path));
  }
}

TEST_F(AtlasWriter, AnArrayWithoutItsFileIsNoneToWriteTo) {
  fs::create_directory(store());
  std::ofstream(store() + "/atlas.json")
      << R"({"version":1,"datasets":{"d":{"arrays":{"t":{"dtype":{"type":"int32"},"shape":[1],"chunk_shape":[1],)"
      << R"("dimension_names":["x"],"codec":"Zstd"}}}}})";
  Writer writer(store(), Mode::append);
  EXPECT_EQ(test::corrupt([&] { put(writer, "d", "t", 0, {1}); }),
            store() + "/t/data.af: array file: expected one, got none (field 'd/t')");
}

TEST_F(AtlasWriter, WhatAnotherProgramWroteStays) {
  Writer writer(store(), Mode::create);
  writer.create_dataset("d");
  writer.flush();
  const std::string path = store() + "/atlas.json";
  const std::string text = contents("atlas.json");
  std::ofstream(path) << text << ' ';
  writer.flush();  // nothing is pending
  writer.create_dataset("e");
  EXPECT_EQ(test::message_of<IoError>([&] { writer.flush(); }),
            store() + ": another program has written to this store since it was opened for writing");
  EXPECT_EQ(contents("atlas.json"), text + " ");
}

TEST_F(AtlasWriter, BelongsToTheProcessThatOpenedIt) {
  Writer writer(store(), Mode::create);
  EXPECT_TRUE(test::holds_in_child([&] {
    try {
      writer.create_dataset("d");
    } catch (const LockedError&) {
      return true;
    }
    return false;
  }));
  EXPECT_THROW(Writer(store(), Mode::append), LockedError);  // the child's end has not ended the lock
}

}  // namespace
}  // namespace atompack::atlas_store
