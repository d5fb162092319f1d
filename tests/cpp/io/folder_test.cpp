#include "io/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.h"
#include "fork.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "message_of.h"

namespace atompack::io {
namespace {

namespace fs = std::filesystem;
using test::holds_in_child;
using test::message_of;
using test::TemporaryFolder;

TEST(Folder, NamesOfFoldersInTheOrderOfTheirBytes) {
  const fs::path folder = fs::temp_directory_path() / cat("atompack_folder_test_", ::getpid());
  for (const char* name : {"2", "10", ".hidden", "a"}) fs::create_directories(folder / name);
  std::ofstream(folder / "file") << "x";
  fs::create_directory_symlink(folder / "a", folder / "link");
  fs::create_symlink(folder / "nowhere", folder / "broken");
  EXPECT_EQ(folders_in(folder), (std::vector<std::string>{".hidden", "10", "2", "a", "link"}));
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".hidden", "10", "2", "a", "broken", "file", "link"}));
  EXPECT_TRUE(names_in(folder / "a").empty());
  fs::remove_all(folder);
  EXPECT_THROW(folders_in(folder), IoError);
  EXPECT_THROW(names_in(folder), IoError);
}

TEST(LockedFolder, HasOneWriterAtATime) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    const LockedFolder lock(folder.path());
    EXPECT_EQ(message_of<LockedError>([&] { LockedFolder second(folder.path()); }),
              folder.path() + ": another writer has this folder open");
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(LockedFolder, MustBeAFolder) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  for (const char* const name : {"none", "file"}) {
    EXPECT_TRUE(message_of<IoError>([&] { LockedFolder lock(folder / name); }).starts_with(folder / name + ": "))
        << name;
  }
}

TEST(LockedFolder, AForkedChildDoesNotUnlock) {
  const TemporaryFolder folder;
  auto lock = std::make_unique<LockedFolder>(folder.path());
  EXPECT_TRUE(holds_in_child([&] {
    lock.reset();
    return true;
  }));
  EXPECT_THROW(LockedFolder(folder.path()), LockedError);
}

TEST(LockedFolder, UnlocksThoughAChildStillHasIt) {
  const TemporaryFolder folder;
  auto lock = std::make_unique<LockedFolder>(folder.path());
  int until[2];
  ASSERT_EQ(::pipe(until), 0);
  const pid_t child = test::start_child([&] {
    ::close(until[1]);
    char byte;
    return ::read(until[0], &byte, 1) == 0;
  });
  lock.reset();
  EXPECT_NO_THROW(LockedFolder(folder.path()));
  ::close(until[0]);
  ::close(until[1]);
  EXPECT_TRUE(test::succeeds(child));
}

TEST(UnpublishedFolder, AppearsWhole) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/set";
  UnpublishedFolder folder(path);
  folder.make_folder("7");
  write_new(folder.inside("7/file"), as_bytes("content"));
  folder.rename("7", "07");
  EXPECT_FALSE(fs::exists(path));
  folder.publish();
  EXPECT_EQ(fs::file_size(path + "/07/file"), 7u);
  EXPECT_FALSE(fs::exists(folder.present_path()));
}

TEST(UnpublishedFolder, GoesAwayWithItsOwner) {
  const TemporaryFolder parent;
  {
    UnpublishedFolder folder(parent.path() + "/set");
    folder.make_folder("0");
  }
  EXPECT_TRUE(fs::is_empty(parent.path()));
}

TEST(UnpublishedFolder, StaysWhereAForkEnds) {
  const TemporaryFolder parent;
  UnpublishedFolder folder(parent.path() + "/set");
  EXPECT_TRUE(holds_in_child([&] {
    folder.~UnpublishedFolder();
    return true;
  }));
  folder.publish();
  EXPECT_TRUE(fs::exists(parent.path() + "/set"));
}

TEST(UnpublishedFolder, HasOneWriterAtATimeAndReplacesNothing) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/set";
  UnpublishedFolder folder(path);
  EXPECT_THROW(UnpublishedFolder other(path), LockedError);
  EXPECT_TRUE(fs::exists(folder.present_path()));
  fs::create_directory(path);
  EXPECT_THROW(folder.publish(), IoError);
  EXPECT_THROW(UnpublishedFolder other(path), IoError);
  EXPECT_THROW(UnpublishedFolder nowhere(parent.path() + "/a/b"), IoError);
}

TEST(UnpublishedFolder, NoLinkIsFollowed) {
  const TemporaryFolder parent;
  fs::create_directory(parent.path() + "/precious");
  write_new(parent.path() + "/precious/file", as_bytes("x"));
  fs::create_directory_symlink("precious", parent.path() + "/.set.new");
  EXPECT_THROW(UnpublishedFolder folder(parent.path() + "/set"), IoError);
  EXPECT_TRUE(fs::exists(parent.path() + "/precious/file"));
}

TEST(OutputFile, FromFrontToBack) {
  const TemporaryFolder parent;
  const std::string path = parent.path() + "/file";
  {
    OutputFile file(path);
    file.append(as_bytes("ab"));
    file.append({});
    file.append(as_bytes("cde"));
    file.sync();
    EXPECT_EQ(file.size(), 5u);
  }
  EXPECT_EQ(fs::file_size(path), 5u);
  EXPECT_THROW(OutputFile again(path), IoError) << "nothing is overwritten";
}

}  // namespace
}  // namespace atompack::io
