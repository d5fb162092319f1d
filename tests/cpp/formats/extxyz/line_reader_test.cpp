#include "formats/extxyz/line_reader.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::ByteString;
using test::corrupt;
using test::TemporaryFile;

std::vector<std::string> lines_of(std::string_view text) {
  const TemporaryFile file(ByteString(text).bytes());
  LineReader lines(file.path());
  std::vector<std::string> all;
  while (const auto line = lines.next()) all.emplace_back(*line);
  EXPECT_EQ(lines.next_offset(), text.size());
  return all;
}

using Lines = std::vector<std::string>;

TEST(LineReader, Ends) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\n\r\nb"), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines_of("a\rb\n"), Lines{"a\rb"});
}

TEST(LineReader, MarksOfByteOrder) {
  const TemporaryFile file(ByteString("\xEF\xBB\xBF"
                                      "2\n")
                               .bytes());
  LineReader lines(file.path());
  EXPECT_EQ(lines.next(), "2");
  EXPECT_EQ(lines.line_offset(), 3U);
  const TemporaryFile other(ByteString("\xFF\xFE"
                                       "2")
                                .bytes());
  EXPECT_EQ(test::unsupported([&] { LineReader(other.path()); }),
            "text: expected UTF-8, got UTF-16: save the file as UTF-8");
}

TEST(LineReader, Offsets) {
  const TemporaryFile file(ByteString("ab\r\nc\nd").bytes());
  LineReader lines(file.path());
  EXPECT_EQ(lines.file_bytes(), 7U);
  lines.next();
  EXPECT_EQ(lines.line_offset(), 0U);
  EXPECT_EQ(lines.next_offset(), 4U);
  EXPECT_FALSE(lines.ends_open());
  lines.next();
  EXPECT_EQ(lines.line_offset(), 4U);
  lines.next();
  EXPECT_EQ(lines.line_offset(), 6U);
  EXPECT_TRUE(lines.ends_open());
  EXPECT_FALSE(lines.next().has_value());
  EXPECT_FALSE(lines.next().has_value());
}

TEST(LineReader, LinesAcrossBuffers) {
  Lines expected;
  std::string text;
  for (size_t i = 0; i < 5000; ++i) {
    expected.push_back(std::string(i % 1000, static_cast<char>('a' + i % 26)));
    text += expected.back() + '\n';
  }
  expected.push_back(std::string(3 << 20, 'x'));
  text += expected.back();
  EXPECT_EQ(lines_of(text), expected);
}

TEST(LineReader, ALineHasItsLimit) {
  const std::string longest(64 << 20, 'x');
  EXPECT_EQ(lines_of(longest + "\na"), (Lines{longest, "a"}));
  EXPECT_EQ(corrupt([&] { lines_of("a\n" + longest + "x\na"); }),
            "line: expected at most 67108864 bytes, got more (offset 2)");
  EXPECT_EQ(corrupt([&] { lines_of(longest + longest + longest); }),
            "line: expected at most 67108864 bytes, got more (offset 0)");
}

TEST(LineReader, AFileThatShrinks) {
  const TemporaryFile file(ByteString(std::string(3 << 20, '\n')).bytes());
  LineReader lines(file.path());
  lines.next();
  file.resize(5);
  EXPECT_EQ(corrupt([&] {
              while (lines.next()) continue;
            }),
            "the file shrank while it was open: expected 3145728 bytes, got 1048576");
}

}  // namespace
}  // namespace atompack::extxyz
