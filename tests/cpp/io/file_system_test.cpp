#include "io/file_system.h"

#include <gtest/gtest.h>

#include <fstream>

#include "byte_string.h"
#include "fixtures.h"
#include "io/faulty_file_system.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io {
namespace {

using test::ByteString;
using test::contents;
using test::FaultyFileSystem;
using test::Stopped;
using test::TemporaryFolder;
using Names = std::set<std::string>;

TEST(FileSystem, NewFilesAreSeenOncePublished) {
  const TemporaryFolder folder;
  {
    const auto file = real_file_system().create(folder / "a");
    file->write_at(0, ByteString("hello").bytes());
    EXPECT_EQ(folder.names(), (Names{".a.new"}));
    file->publish(false);
    EXPECT_TRUE(file->is_published());
    EXPECT_EQ(test::message_of<LockedError>([&] { real_file_system().lock(folder / "a"); }),
              folder / "a" + ": another writer has this file open");
  }
  EXPECT_EQ(contents(folder / "a"), "hello");
  {
    const auto dropped = real_file_system().create(folder / "b");
  }
  EXPECT_EQ(folder.names(), (Names{"a"}));
}

TEST(FileSystem, PublishingReplacesOnlyWhenAskedTo) {
  const TemporaryFolder folder;
  FileSystem& files = real_file_system();
  replace_file(files, folder / "a", ByteString("old").bytes());
  const auto file = files.create(folder / "a");
  EXPECT_NE(test::message_of<IoError>([&] { file->publish(false); }).find("exists"), std::string::npos);
  replace_file(files, folder / "b", ByteString("new").bytes());
  EXPECT_EQ(contents(folder / "a"), "old");
  EXPECT_EQ(contents(folder / "b"), "new");
}

TEST(FileSystem, WithoutWaitingForTheDiskItDoesTheSame) {
  const TemporaryFolder folder;
  FileSystem& files = unsynced_file_system();
  EXPECT_TRUE(files.make_folder(folder / "f"));
  replace_file(files, folder / "f/a", ByteString("old").bytes());
  replace_file(files, folder / "f/a", ByteString("new").bytes());
  EXPECT_EQ(contents(folder / "f/a"), "new");
  EXPECT_FALSE(files.make_folder(folder / "f"));
  files.sync_folder(folder / "f");
  files.remove(folder / "f/a");
  EXPECT_FALSE(io::exists(folder / "f/a"));
}

TEST(FileSystem, WhatWasLeftStays) {
  const TemporaryFolder folder;
  {
    const auto file = real_file_system().create(folder / "a");
    file->write_at(0, ByteString("hello").bytes());
    file->leave();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  const auto again = real_file_system().create(folder / "a");
  EXPECT_EQ(again->size(), 0U);
}

TEST(FileSystem, MakesFoldersAndRemovesFiles) {
  const TemporaryFolder folder;
  FileSystem& files = real_file_system();
  EXPECT_TRUE(files.make_folder(folder / "f"));
  EXPECT_FALSE(files.make_folder(folder / "f"));
  files.sync_folder(folder / "f");
  replace_file(files, folder / "f/a", ByteString("x").bytes());
  files.remove(folder / "f/a");
  files.remove(folder / "f/a");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "f"));
  EXPECT_NE(test::message_of<IoError>([&] { files.make_folder(folder / "g/h"); }).find("No such file"),
            std::string::npos);
}

TEST(FaultyFileSystem, StopsForEverAndLeavesWhatIsThere) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.stop_at = 1;
  files.torn_bytes = 3;
  EXPECT_THROW(replace_file(files, folder / "a", ByteString("hello").bytes()), Stopped);
  EXPECT_EQ(contents(folder / ".a.new"), "hel");
  EXPECT_THROW(files.remove(folder / ".a.new"), Stopped);
}

TEST(FaultyFileSystem, RefusesOnceAndGoesOn) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  files.refuse_at = 1;
  EXPECT_THROW(replace_file(files, folder / "a", ByteString("hello").bytes()), IoError);
  EXPECT_EQ(folder.names(), Names{});
  replace_file(files, folder / "a", ByteString("hello").bytes());
  EXPECT_EQ(contents(folder / "a"), "hello");
}

TEST(FaultyFileSystem, WantsFilesSyncedBeforeTheyArePublished) {
  const TemporaryFolder folder;
  FaultyFileSystem files;
  const auto file = files.create(folder / "a");
  file->write_at(0, ByteString("hello").bytes());
  EXPECT_THROW(file->publish(false), InternalError);
}

}  // namespace
}  // namespace atompack::io
