#include "io/folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>

#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io {
namespace {

int code_of(const std::string& path) {
  try {
    LockedFolder folder(path);
    return 0;
  } catch (const IoError& error) {
    EXPECT_EQ(error.path(), path);
    return error.code();
  }
}

TEST(LockedFolder, HasOneWriterAtATime) {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    const LockedFolder lock(folder.path());
    EXPECT_EQ(test::message_of<LockedError>([&] { LockedFolder second(folder.path()); }),
              folder.path() + ": another writer has this folder open");
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(LockedFolder, MustBeAFolder) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(code_of(folder / "none"), ENOENT);
  EXPECT_EQ(code_of(folder / "file"), ENOTDIR);
}

TEST(LockedFolder, AForkedChildDoesNotUnlock) {
  const test::TemporaryFolder folder;
  auto lock = std::make_unique<LockedFolder>(folder.path());
  const pid_t child = ::fork();
  if (child == 0) {
    lock.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_THROW(LockedFolder(folder.path()), LockedError);
}

TEST(LockedFolder, UnlocksThoughAChildStillHasIt) {
  const test::TemporaryFolder folder;
  auto lock = std::make_unique<LockedFolder>(folder.path());
  int until[2];
  ASSERT_EQ(::pipe(until), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(until[1]);
    char byte;
    ::_exit(::read(until[0], &byte, 1) == 0 ? 0 : 1);
  }
  lock.reset();
  EXPECT_NO_THROW(LockedFolder(folder.path()));
  ::close(until[0]);
  ::close(until[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace atompack::io
