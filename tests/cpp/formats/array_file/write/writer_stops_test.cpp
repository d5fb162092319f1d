// A writer that dies, or is refused something, at each of its operations.
#include <gtest/gtest.h>

#include "formats/array_file/array_model.h"
#include "formats/array_file/read/statistics.h"
#include "io/faulty_file_system.h"
#include "io/temporary_folder.h"

namespace atompack::array_file {
namespace {

using test::expect_file;
using test::FaultyFileSystem;
using test::Model;
using test::Models;
using test::numbers;
using test::Stopped;
using test::TemporaryFolder;
using test::Values;

// Incompressible, so that blocks are written before the end.
Values noise(uint64_t n, uint32_t seed) {
  std::vector<uint32_t> values(n);
  for (uint32_t& value : values) value = seed = seed * 1664525 + 1013904223;
  return numbers(values);
}

const ArrayDefinition kNoise{.name = "noise", .type = Type::uint32, .shape = {400}, .chunk_shape = {64}};

// Has the name of an array that was deleted.
const ArrayDefinition kAgain{.name = "gone", .type = Type::uint32, .shape = {6}, .chunk_shape = {4}};

class WriterStops : public testing::TestWithParam<codec::Codec> {
 protected:
  WriterOptions options() const { return {.codec = GetParam(), .block_bytes = 300, .n_threads = 2}; }
  static void make(Writer& writer, Models& models, const ArrayDefinition& array) {
    writer.define(array);
    models.insert_or_assign(array.name, Model(array));
  }
  static void put(Writer& writer, Models& models, const std::string& name, const Box& box, const Values& values) {
    test::write(writer, name, box, values);
    models.at(name).write(box, values);
  }
  // Two layers, one with an array that is gone since.
  Models prepare(const std::string& path) const {
    Models models;
    Writer writer(path, options());
    make(writer, models, kNoise);
    make(writer, models, {.name = "gone", .type = Type::string, .shape = {2}});
    put(writer, models, "noise", {{0}, {400}}, noise(400, 1));
    put(writer, models, "gone", {{0}, {2}}, {{}, {"x", "y"}});
    writer.flush();
    put(writer, models, "noise", {{30}, {100}}, noise(100, 2));
    writer.remove("gone");
    models.erase("gone");
    writer.flush();
    return models;
  }
  // The changes of the flush that is stopped.
  static void change(Writer& writer) {
    test::write(writer, "noise", {{100}, {290}}, noise(290, 3));
    writer.define(kAgain);
    test::write(writer, "gone", {{1}, {2}}, noise(2, 4));
  }
  static Models changed(Models models) {
    models.insert_or_assign("gone", Model(kAgain));
    models.at("noise").write({{100}, {290}}, noise(290, 3));
    models.at("gone").write({{1}, {2}}, noise(2, 4));
    return models;
  }
  // What is there is one of these states, and a new writer continues from it.
  static bool is_one_of(const std::string& path, const Models& before, const Models& after) {
    const Reader reader(path);
    const bool done = reader.contains("gone");
    expect_file(path, done ? after : before);
    return done;
  }
  static void go_on(const std::string& path, Models models) {
    Writer writer(path);
    put(writer, models, "noise", {{7}, {3}}, noise(3, 5));
    writer.flush();
    expect_file(path, models);
    writer.compact();
    expect_file(path, models);
  }
};

TEST_P(WriterStops, AFlushIsWholeOrNotThere) {
  bool finished = false, was_after = false;
  for (size_t stop = 0; !finished; ++stop) {
    SCOPED_TRACE(stop);
    const TemporaryFolder folder;
    const std::string path = folder / "data.af";
    const Models before = prepare(path);
    FaultyFileSystem files;
    files.stop_at = stop;
    files.torn_bytes = stop % 3 * 7;
    try {
      Writer writer(path, options(), files);
      change(writer);
      writer.flush();
      finished = true;
    } catch (const Stopped&) {
      EXPECT_TRUE(files.stopped());
    }
    const Models after = changed(before);
    const bool done = is_one_of(path, before, after);
    EXPECT_TRUE(done || !was_after);
    was_after = done;
    EXPECT_TRUE(done || !finished);
    go_on(path, done ? after : before);
  }
  EXPECT_TRUE(was_after);
}

TEST_P(WriterStops, ACompactionChangesNothing) {
  bool finished = false;
  for (size_t stop = 0; !finished; ++stop) {
    SCOPED_TRACE(stop);
    const TemporaryFolder folder;
    const std::string path = folder / "data.af";
    const Models models = prepare(path);
    FaultyFileSystem files;
    files.stop_at = stop;
    files.torn_bytes = stop % 3 * 7;
    try {
      Writer writer(path, options(), files);
      writer.compact();
      finished = true;
    } catch (const Stopped&) {
      EXPECT_TRUE(files.stopped());
    }
    expect_file(path, models);
    go_on(path, models);
  }
}

TEST_P(WriterStops, ARefusedFlushCanBeMadeAgain) {
  bool refused = true;
  for (size_t at = 0; refused; ++at) {
    SCOPED_TRACE(at);
    const TemporaryFolder folder;
    const std::string path = folder / "data.af";
    Models models = prepare(path);
    FaultyFileSystem files;
    files.refuse_at = at;
    files.torn_bytes = at % 3 * 7;
    refused = false;
    Writer writer(path, options(), files);
    const auto again = [&](const auto& action) {
      for (int i = 0; i < 2; ++i) {
        try {
          return action();
        } catch (const IoError&) {
          refused = true;
        }
      }
      FAIL() << "refused twice";
    };
    make(writer, models, kAgain);
    again([&] { put(writer, models, "noise", {{100}, {290}}, noise(290, 3)); });
    again([&] { put(writer, models, "gone", {{1}, {2}}, noise(2, 4)); });
    again([&] { writer.flush(); });
    expect_file(path, models);
    again([&] { writer.compact(); });
    expect_file(path, models);
    EXPECT_EQ(read_statistics(path).at("gone").n_rows, 6U);
    EXPECT_EQ(folder.names(), (std::set<std::string>{"data.af", "data.stats"}));
  }
}

TEST_P(WriterStops, ARefusedFlushCanBeDiscarded) {
  bool refused = true;
  for (size_t at = 0; refused; ++at) {
    SCOPED_TRACE(at);
    const TemporaryFolder folder;
    const std::string path = folder / "data.af";
    const Models before = prepare(path);
    FaultyFileSystem files;
    files.refuse_at = at;
    refused = false;
    Writer writer(path, options(), files);
    try {
      change(writer);
      writer.flush();
    } catch (const IoError&) {
      refused = true;
      writer.discard();
    }
    files.refuse_at = FaultyFileSystem::kNever;
    Models models = is_one_of(path, before, changed(before)) ? changed(before) : before;
    put(writer, models, "noise", {{7}, {3}}, noise(3, 5));
    writer.flush();
    expect_file(path, models);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WriterStops, testing::Values(codec::Codec::none, codec::Codec::zstd),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

}  // namespace
}  // namespace atompack::array_file
