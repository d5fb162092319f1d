#include "io/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::TemporaryFile;

template <typename Action>
int code_of(const Action& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.code();
  }
  return 0;
}

TEST(File, OpensAndIdentifies) {
  const TemporaryFile file(ByteString("hello").bytes());
  const UniqueFd fd = open_for_reading(file.path());
  const FileIdentity identity = identify(fd.get(), file.path());
  EXPECT_EQ(identity.size, 5U);
  EXPECT_TRUE(identity.same_file(identify(open_for_reading(file.path()).get(), file.path())));
}

TEST(File, GrowingKeepsTheIdentityAndReplacingDoesNot) {
  const TemporaryFile file(ByteString("hello").bytes());
  const UniqueFd open = open_for_reading(file.path());  // keeps the inode's number in use
  const FileIdentity before = identify(open.get(), file.path());
  file.resize(9);
  const FileIdentity grown = identify(open_for_reading(file.path()).get(), file.path());
  EXPECT_TRUE(grown.same_file(before));
  EXPECT_EQ(grown.size, 9U);
  file.replace(ByteString("hello").bytes());
  EXPECT_FALSE(identify(open_for_reading(file.path()).get(), file.path()).same_file(before));
}

TEST(File, AVersionTellsWritingAndReplacingFromNothing) {
  const TemporaryFile file(ByteString("hello").bytes());
  const UniqueFd open = open_for_reading(file.path());
  const std::optional<FileVersion> before = version_of(file.path());
  ASSERT_TRUE(before);
  EXPECT_EQ(before->size, 5U);
  EXPECT_EQ(version_of(file.path()), before);
  file.replace(ByteString("hello").bytes());
  const std::optional<FileVersion> replaced = version_of(file.path());
  EXPECT_NE(replaced, before);
  file.resize(9);
  EXPECT_NE(version_of(file.path()), replaced);
  const auto held = find_file(file.path());
  EXPECT_EQ(read_whole(*held, 100).size(), 9U);
  EXPECT_EQ(version_of(file.path()), held->version());
}

TEST(File, WhatIsNotThereHasNoVersion) {
  const TemporaryFile file(ByteString("hello").bytes());
  EXPECT_FALSE(version_of(file.path() + ".none"));
  EXPECT_EQ(code_of([&] { version_of(file.path() + "/below a file"); }), ENOTDIR);
}

TEST(File, SystemErrorsKeepErrnoAndPath) {
  EXPECT_EQ(code_of([] { open_for_reading("/nowhere/a.atp"); }), ENOENT);
  EXPECT_EQ(code_of([] { open_for_reading(""); }), ENOENT);
  EXPECT_EQ(code_of([] { identify(-1, "gone"); }), EBADF);
  std::array<std::byte, 1> into{};
  EXPECT_EQ(code_of([&] { read_at(-1, 0, into, "gone"); }), EBADF);
  EXPECT_EQ(test::message_of<IoError>([] { open_for_reading("/nowhere/a.atp"); }),
            "/nowhere/a.atp: No such file or directory");
}

TEST(File, OnlyRegularFilesAreFiles) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(code_of([&] { identify(open_for_reading(folder).get(), folder); }), EISDIR);
  EXPECT_EQ(code_of([] { identify(open_for_reading("/dev/null").get(), "/dev/null"); }), EINVAL);
}

TEST(File, APipeIsRefusedAndDoesNotBlock) {
  const std::string path = testing::TempDir() + cat("atompack_pipe_", ::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { identify(open_for_reading(path).get(), path); }), EINVAL);
  std::filesystem::remove(path);
}

TEST(File, DescriptorsAreNotInherited) {
  const TemporaryFile file(ByteString("x").bytes());
  const UniqueFd fd = open_for_reading(file.path());
  EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(File, ReadsShortOnlyAtTheEnd) {
  const TemporaryFile file(ByteString("hello").bytes());
  const UniqueFd fd = open_for_reading(file.path());
  std::array<std::byte, 4> into{};
  EXPECT_EQ(read_at(fd.get(), 1, into, file.path()), 4U);
  EXPECT_EQ(as_text(into), "ello");
  EXPECT_EQ(read_at(fd.get(), 3, into, file.path()), 2U);
  EXPECT_EQ(read_at(fd.get(), 5, into, file.path()), 0U);
  EXPECT_EQ(read_at(fd.get(), 500, into, file.path()), 0U);
  EXPECT_EQ(read_at(fd.get(), 0, {}, file.path()), 0U);
}

}  // namespace
}  // namespace atompack::io
