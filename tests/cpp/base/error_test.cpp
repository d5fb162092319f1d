#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace atompack {
namespace {

TEST(Cat, PrintsItsArgumentsOneAfterTheOther) { EXPECT_EQ(cat("n ", 3, ' ', -1.5, std::string(" x")), "n 3 -1.5 x"); }

TEST(DataError, SaysOnlyWhatItKnows) {
  EXPECT_STREQ(CorruptFileError("magic").what(), "magic");
  EXPECT_STREQ(CorruptFileError("magic", 0).what(), "magic (offset 0)");
  EXPECT_STREQ(FieldError("absent").at_field("").what(), "absent (field '')");
}

TEST(DataError, CollectsThePlaceWhileItPasses) {
  CorruptFileError error("length: expected 8, got 9", 4);
  error.at_field("energy").shift_offset(100).at_molecule(7).in_file("a.atp");
  EXPECT_STREQ(error.what(), "a.atp: length: expected 8, got 9 (molecule 7, field 'energy', offset 104)");
}

TEST(DataError, TheInnermostStatementOfAPlaceWins) {
  CorruptFileError error("bad", 1);
  error.at_molecule(1).at_molecule(2).at_field("in").at_field("out").in_file("in.atp").in_file("out.atp");
  EXPECT_STREQ(error.what(), "in.atp: bad (molecule 1, field 'in', offset 1)");
  EXPECT_STREQ(error.at_offset(9).what(), "in.atp: bad (molecule 1, field 'in', offset 1)");
}

TEST(DataError, AnOffsetIsSetWhereNoneIsKnownAndShiftedWhereOneIs) {
  CorruptFileError error("bad");
  EXPECT_STREQ(error.shift_offset(10).what(), "bad");
  EXPECT_STREQ(error.at_offset(3).what(), "bad (offset 3)");
  EXPECT_STREQ(error.shift_offset(10).what(), "bad (offset 13)");
}

TEST(DataError, NamesWhatAnOffsetCountsFrom) {
  CorruptFileError error("bad", 3);
  EXPECT_STREQ(error.shift_offset(0, " of the record").shift_offset(0, " of something else").what(),
               "bad (offset 3 of the record)");
}

TEST(DataError, AFieldNameCannotCutOrBreakTheMessage) {
  const std::string key("a\0b\n\x7f", 5);
  EXPECT_STREQ(CorruptFileError("bad", 3).at_field(key).what(), "bad (field 'a\\x00b\\x0a\\x7f', offset 3)");
}

TEST(DataError, KindsAreToldApartByType) {
  EXPECT_THROW(throw UnsupportedFormatError("x"), UnsupportedFormatError);
  EXPECT_THROW(throw FieldError("x"), DataError);
  EXPECT_THROW(throw CorruptFileError("x"), std::exception);
}

TEST(IoError, CarriesErrnoAndPath) {
  const IoError error(ENOENT, "no such file", "/nowhere/a.atp");
  EXPECT_EQ(error.code(), ENOENT);
  EXPECT_EQ(error.path(), "/nowhere/a.atp");
  EXPECT_STREQ(error.what(), "/nowhere/a.atp: no such file");
}

TEST(InternalError, IsNoDataError) {
  try {
    throw InternalError("promise broken");
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "promise broken");
  }
}

}  // namespace
}  // namespace atompack
