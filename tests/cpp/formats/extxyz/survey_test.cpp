#include "formats/extxyz/survey.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "byte_string.h"
#include "io/temporary_file.h"

namespace atompack::extxyz {
namespace {

std::string survey_of(const std::string& text) {
  const test::TemporaryFile file(test::ByteString(text).bytes());
  const Survey found = survey(file.path());
  std::string shown = cat(found.n_frames, " frames");
  for (const SurveyedField& field : found.fields) {
    shown += cat(", ", field.level == Level::atom ? "atom " : "", field.key, ' ', name_of(field.kind));
    shown += !field.shape ? " of shapes" : field.shape->empty() ? "" : cat(" of ", field.shape->size(), "-d");
  }
  return shown;
}

TEST(Survey, JoinsTheFrames) {
  EXPECT_EQ(survey_of(""), "0 frames");
  EXPECT_EQ(survey_of("0\na=1 b=T\n0\na=1.5 b=x c=\"1 2\"\n0\nc=\"3 4\" pbc=T\n"),
            "3 frames, a real, b text, c integer of 1-d");
  EXPECT_EQ(survey_of("0\nc=1\n0\nc=\"1 2\"\n"), "2 frames, c integer of shapes");
  EXPECT_EQ(survey_of("1\nProperties=Z:I:1:pos:R:3:q:I:2\n1 0 0 0 1 2\n0\nProperties=Z:I:1:pos:R:3:q:R:2\n"),
            "2 frames, atom q real of 1-d");
}

TEST(Survey, EndsAtDamage) {
  EXPECT_EQ(survey_of("0\na=1\n1\nb=1\n"), "1 frames, a integer");
  EXPECT_EQ(survey_of("0\na=1\nx\n"), "1 frames, a integer");
  EXPECT_EQ(survey_of("0\na=1\n2\nb=1\nxxxxxxxxxxxxxxxxxxxx\n"), "1 frames, a integer");
}

TEST(Survey, NoFile) { EXPECT_THROW(survey("/nowhere/x"), IoError); }

}  // namespace
}  // namespace atompack::extxyz
