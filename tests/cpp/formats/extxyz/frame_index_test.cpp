#include "formats/extxyz/frame_index.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::extxyz {
namespace {

parsed::Index scan_of(const std::string& text, unsigned n_threads = 1) {
  const test::TemporaryFile file(test::ByteString(text).bytes());
  FrameScanner scanner(file.path(), n_threads);
  while (scanner.advance()) continue;
  EXPECT_LE(scanner.bytes_read(), scanner.file_bytes());
  return scanner.finish("x", false);
}

std::string survey_of(const std::string& text) {
  const parsed::Index found = scan_of(text);
  std::string shown = cat(found.entries.size(), " frames");
  for (const parsed::SurveyedField& field : found.survey.fields()) {
    shown += cat(", ", field.level == Level::atom ? "atom " : "", field.key, ' ', name_of(field.kind));
    shown += !field.shape ? " of shapes" : field.shape->empty() ? "" : cat(" of ", field.shape->size(), "-d");
  }
  return shown;
}

TEST(FrameScanner, JoinsTheFrames) {
  EXPECT_EQ(survey_of(""), "0 frames");
  EXPECT_EQ(survey_of("0\na=1 b=T\n0\na=1.5 b=x c=\"1 2\"\n0\nc=\"3 4\" pbc=F\n"),
            "3 frames, a real, b text, c integer of 1-d");
  EXPECT_EQ(survey_of("0\nc=1\n0\nc=\"1 2\"\n"), "2 frames, c integer of shapes");
  EXPECT_EQ(survey_of("1\nProperties=Z:I:1:pos:R:3:q:I:2\n1 0 0 0 1 2\n0\nProperties=Z:I:1:pos:R:3:q:R:2\n"),
            "2 frames, atom q real of 1-d");
  const std::string text = "1\nProperties=Z:I:1:pos:R:3:q:S:1\n1 0 0 0 x\n";
  EXPECT_EQ(survey_of(text), "1 frames, atom q text");
  EXPECT_EQ(survey_of(text + "1\nProperties=Z:I:1:pos:R:3:q:I:1\n1 0 0 0 1\n" + text), "3 frames, atom q integer");
}

TEST(FrameScanner, EndsAtDamage) {
  EXPECT_EQ(survey_of("0\na=1\n1\nb=1\n"), "1 frames, a integer");
  EXPECT_EQ(survey_of("0\na=1\nx\n"), "1 frames, a integer");
  EXPECT_EQ(survey_of("0\na=1\n2\nb=1\nxxxxxxxxxxxxxxxxxxxx\n"), "1 frames, a integer");
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

TEST(FrameScanner, ReportsDamage) {
  const auto message = [](const std::string& text) {
    const test::TemporaryFile file(test::ByteString(text).bytes());
    FrameScanner scanner(file.path(), 1);
    while (scanner.advance()) continue;
    return test::corrupt([&] { scanner.finish("x", true); });
  };
  EXPECT_EQ(message("0\na=1\nx\n"), "x: frame: expected the number of atoms, got 'x' (molecule 1, offset 6)");
  EXPECT_EQ(message("2\na=1\nH 0 0 0\n"), "x: frame: expected 2 atom lines, got 8 more bytes (molecule 0, offset 6)");
  EXPECT_EQ(message("9000000000000000000\na=1\nH 0 0 0\n"),
            "x: frame: expected 9000000000000000000 atom lines, got 8 more bytes (molecule 0, offset 24)");
  EXPECT_EQ(message("1\n"), "x: frame: expected a comment line, got the end of the file (molecule 0, offset 2)");
}

TEST(FrameScanner, ManyFramesOnThreads) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += cat("1\nn=", i, i == 9000 ? ".5" : "", "\nH 0 0 ", i, "\n");
  const parsed::Index one = scan_of(text), four = scan_of(text, 4);
  ASSERT_EQ(one.entries.size(), 10000U);
  ASSERT_EQ(one.survey.fields().size(), 1U);
  EXPECT_EQ(one.survey.fields()[0].kind, parsed::Kind::real);
  parsed::Index same = scan_of(text, 4);
  same.stamp = one.stamp;
  EXPECT_EQ(encode_index(same), encode_index(one));
}

TEST(FrameScanner, ContinuesAfterFaultyCommentLines) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += cat("1\nn=", i, i % 4000 == 3000 ? " n=" : "", "\nH 0 0 ", i, "\n");
  const test::TemporaryFile file(test::ByteString(text).bytes());
  const auto index_of = [&](bool strict) {
    FrameScanner scanner(file.path(), 4);
    while (scanner.advance()) continue;
    parsed::Index index = scanner.finish("x", strict);
    scanner.check("x", index.entries.size());
    return index;
  };
  const parsed::Index index = index_of(false);
  ASSERT_EQ(index.entries.size(), 10000U);
  EXPECT_EQ(index.entries[3000].n_atoms, 1U);
  EXPECT_EQ(index.entries[3000].place + index.entries[3000].bytes, index.entries[3001].place);
  try {
    index_of(true);
    FAIL();
  } catch (const CorruptFileError& error) {
    EXPECT_EQ(std::string(error.what()), "x: comment line: duplicate key (molecule 3000, field 'n', offset 57789)");
  }
}

TEST(FrameScanner, NoFile) { EXPECT_THROW(FrameScanner("/nowhere/x", 1), IoError); }

}  // namespace
}  // namespace atompack::extxyz
