// Pickles that Python, NumPy and torch wrote (tests/fixtures/make_pickles.py), and those that must be refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "fixtures.h"
#include "serial/pickle/run.h"
#include "serial/pickle/writer.h"

namespace atompack::pickle {
namespace {

namespace fs = std::filesystem;
using test::contents;

std::vector<fs::path> pickles_in(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(PICKLE_FIXTURES) / folder)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".pkl") && !name.ends_with(".again.pkl")) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::string without_order(std::string text) {
  for (size_t at = 0; (at = text.find(" K ", at)) != std::string::npos;) text[at + 1] = 'C';
  return text;
}

TEST(PickleFixtures, AreRead) {
  const std::vector<fs::path> paths = pickles_in("");
  ASSERT_EQ(paths.size(), 12u);
  Machine machine;
  for (fs::path path : paths) {
    const std::string block = contents(path);
    EXPECT_EQ(test::show_lines(machine.run(as_bytes(block))), contents(path.replace_extension(".txt"))) << path;
  }
}

// test_pickles.py reads what was written with Python.
TEST(PickleFixtures, AreWrittenAgain) {
  Machine machine;
  for (fs::path path : pickles_in("")) {
    const std::string block = contents(path), text = contents(fs::path(path).replace_extension(".txt"));
    std::vector<std::byte> written;
    Writer writer(written);
    writer.value(machine.run(as_bytes(block)));
    writer.finish();
    EXPECT_TRUE(as_text(written) == contents(fs::path(path).replace_extension(".again.pkl"))) << path;
    EXPECT_EQ(test::show_lines(machine.run(written)), without_order(text)) << path;
  }
}

TEST(PickleFixtures, HostileOnesAreRefused) {
  const std::vector<fs::path> paths = pickles_in("hostile");
  ASSERT_EQ(paths.size(), 14u);
  for (fs::path path : paths) {
    Machine machine;
    const std::string block = contents(path), kinds = contents(path.replace_extension(".txt"));
    std::string kind = "none";
    try {
      machine.run(as_bytes(block));
    } catch (const UnsafePickleError&) {
      kind = "unsafe";
    } catch (const CorruptFileError&) {
      kind = "corrupt";
    }
    EXPECT_NE(kinds.find(kind), std::string::npos) << path << ": " << kind;
  }
}

// Any damage ends in a value or in a named error.
TEST(PickleFixtures, DamagedOnes) {
  Machine machine;
  for (const fs::path& path : pickles_in("")) {
    std::string block = contents(path);
    for (size_t at = 0; at < block.size(); at += 1 + block.size() / 256) {
      const char was = block[at];
      block[at] = static_cast<char>(was ^ (1 << at % 8));
      try {
        test::show(machine.run(as_bytes(block)));
      } catch (const DataError& error) {
        EXPECT_TRUE(std::string_view(error.what()).starts_with("pickle: ")) << error.what();
      }
      block[at] = was;
    }
  }
}

}  // namespace
}  // namespace atompack::pickle
