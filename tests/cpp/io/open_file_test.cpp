#include "io/open_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::TemporaryFile;

TEST(OpenFile, ReadsWhatIsThereNow) {
  const TemporaryFile there(ByteString("hello").bytes());
  const auto held = open_file(there.path());
  const OpenFile& file = *held;
  std::array<std::byte, 4> into{};
  EXPECT_EQ(file.path(), there.path());
  EXPECT_EQ(file.size(), 5U);
  EXPECT_EQ(file.read_at(1, into), 4U);
  EXPECT_EQ(as_text(into), "ello");
  EXPECT_EQ(file.read_at(3, into), 2U);
  there.resize(2);
  EXPECT_EQ(file.size(), 2U);
  EXPECT_EQ(file.read_at(0, into), 2U);
  EXPECT_EQ(file.read_at(2, into), 0U);
}

TEST(OpenFile, GoesOnWithTheFileThatItOpened) {
  const TemporaryFile there(ByteString("hello").bytes());
  const auto held = open_file(there.path());
  const OpenFile& file = *held;
  there.replace(ByteString("hi").bytes());
  EXPECT_EQ(file.size(), 5U);
  EXPECT_EQ(open_file(there.path())->size(), 2U);
}

TEST(OpenFile, NothingThereIsAnError) {
  EXPECT_EQ(test::message_of<IoError>([] { open_file("/nowhere/a"); }), "/nowhere/a: No such file or directory");
  EXPECT_EQ(test::message_of<IoError>([] { open_file("/dev/null"); }),
            "/dev/null: expected a regular file, got a device");
}

}  // namespace
}  // namespace atompack::io
