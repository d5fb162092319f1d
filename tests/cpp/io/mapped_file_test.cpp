#include "io/local_file.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::corrupt;
using test::TemporaryFile;

MappedFile map(const TemporaryFile& file, uint64_t length, Access access = Access::automatic, bool populate = false) {
  return {std::make_shared<const LocalFile>(file.path()), length, access, populate};
}

TEST(MappedFile, ViewsTheBytesAskedFor) {
  const TemporaryFile file(ByteString("hello").bytes());
  for (const Access access : {Access::automatic, Access::random, Access::sequential}) {
    for (const bool populate : {false, true}) {
      const MappedFile mapped = map(file, 4, access, populate);
      EXPECT_EQ(as_text(mapped.whole()), "hell");
      EXPECT_EQ(mapped.path(), file.path());
    }
  }
}

TEST(MappedFile, OfNoBytesIsEmpty) {
  const TemporaryFile file(Bytes{});
  const MappedFile mapped = map(file, 0);
  EXPECT_TRUE(mapped.whole().empty());
  mapped.check_not_shrunk();
}

TEST(MappedFile, NoticesAFileThatShrank) {
  const TemporaryFile file(ByteString("hello").bytes());
  const MappedFile mapped = map(file, 4);
  mapped.check_not_shrunk();
  file.resize(4);  // what is gone was not mapped
  mapped.check_not_shrunk();
  file.resize(3);
  EXPECT_EQ(corrupt([&] { mapped.check_not_shrunk(); }),
            file.path() + ": the file shrank while it was open: expected 4 bytes, got 3");
  file.resize(9);
  mapped.check_not_shrunk();
}

TEST(MappedFile, OutlivesTheNameOfItsFile) {
  const TemporaryFile file(ByteString("hello").bytes());
  const MappedFile mapped = map(file, 5);
  file.replace(ByteString("other").bytes());
  mapped.check_not_shrunk();
  EXPECT_EQ(as_text(mapped.whole()), "hello");
}

TEST(MappedFile, AFailureNamesPathAndErrno) {
  const TemporaryFile file(ByteString("hello").bytes());
  EXPECT_EQ(test::message_of<IoError>([&] { map(file, uint64_t{1} << 60); }),
            file.path() + ": mmap: Cannot allocate memory");
}

TEST(MappedFile, GivesBackItsDescriptor) {
  const TemporaryFile file(ByteString("hello").bytes());
  const size_t before = test::count_open_descriptors();
  for (int i = 0; i < 200; ++i) map(file, 5);
  EXPECT_EQ(test::count_open_descriptors(), before);
}

}  // namespace
}  // namespace atompack::io
