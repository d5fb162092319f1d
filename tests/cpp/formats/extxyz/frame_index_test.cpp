#include "formats/extxyz/frame_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/extxyz/line_reader.h"
#include "io/temporary_file.h"

namespace atompack::extxyz {
namespace {

parsed::Index scan_of(const std::string& text, unsigned n_threads = 1) {
  const test::TemporaryFile file(as_bytes(text));
  FrameScanner scanner(file.path(), n_threads);
  while (scanner.advance()) continue;
  EXPECT_LE(scanner.bytes_read(), scanner.file_bytes());
  return scanner.finish("x", false);
}

TEST(FrameScanner, FindsFrames) {
  const parsed::Index found = scan_of("\n2\na=1\nH 0 0 0\nH 0 0 1\n\n0\n\n1\nLattice=\"1 0 0 0 1 0 0 0 1\"\nH 0 0 0");
  ASSERT_EQ(found.entries.size(), 3U);
  EXPECT_EQ(found.entries[0].place, 1U);
  EXPECT_EQ(found.entries[1].place, 24U);
  EXPECT_EQ(found.entries[0].n_atoms, 2U);
  EXPECT_EQ(found.entries[1].n_atoms, 0U);
  EXPECT_TRUE(found.survey.has_cells());
  EXPECT_TRUE(found.ends_open);
  EXPECT_EQ(found.entries[0].bytes, 23U);
  EXPECT_EQ(found.entries[2].place + found.entries[2].bytes, found.stamp.bytes);
}

TEST(FrameScanner, RecordsAreNoLargerThanTheTextJustifies) {
  const parsed::Index found = scan_of("1\nProperties=species:S:1:pos:R:3:x:R:1048572\nH 0 0 0\n");
  ASSERT_EQ(found.entries.size(), 1U);
  EXPECT_EQ(found.entries[0].record_bytes, parsed::max_record_bytes(found.entries[0].bytes, 1));
}

TEST(FrameScanner, ManyFramesOnThreads) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += cat("1\nn=", i, i == 9000 ? ".5" : "", "\nH 0 0 ", i, "\n");
  const parsed::Index one = scan_of(text);
  parsed::Index four = scan_of(text, 4);
  ASSERT_EQ(one.entries.size(), 10000U);
  ASSERT_EQ(one.survey.fields().size(), 1U);
  EXPECT_EQ(one.survey.fields()[0].kind, parsed::Kind::real);
  four.stamp = one.stamp;
  EXPECT_EQ(encode_index(four), encode_index(one));
}

TEST(LineReader, LinesAcrossBuffers) {
  std::vector<std::string> expected;
  std::string text;
  for (size_t i = 0; i < 5000; ++i) {
    expected.push_back(std::string(i % 1000, static_cast<char>('a' + i % 26)));
    text += expected.back() + '\n';
  }
  expected.push_back(std::string(3 << 20, 'x'));
  text += expected.back();
  const test::TemporaryFile file(as_bytes(text));
  LineReader lines(file.path());
  std::vector<std::string> found;
  while (const auto line = lines.next()) found.emplace_back(*line);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace atompack::extxyz
